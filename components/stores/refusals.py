"""What a store's refusal means to the person whose environment has the address and the keys."""

import re

from image_pipeline.components.errors import UserError

_CODE = re.compile(r"<Code>(\w+)</Code>")
_EXPECTED_REGION = re.compile(r"expecting '([\w-]+)'")
# Where obstore asks for the credentials of a machine of Amazon's or Azure's, if it has no others.
_MACHINE_S_OWN = "http://169.254.169.254/"
_NAMES = {
    "s3": ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"),
    "az": ("AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY", "AZURE_ENDPOINT"),
}
_WAYS_OUT = {
    "s3": (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or "
        "AWS_SKIP_SIGNATURE=true for a public bucket"
    ),
    "az": (
        "set AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, or AZURE_STORAGE_CONNECTION_STRING, or "
        "AZURE_SKIP_SIGNATURE=true for a public container"
    ),
}
# What obstore says before it asks the store: of a key that is half given, or none at all.
_INCOMPLETE = ("Missing AccessKeyId", "Missing SecretAccessKey", "Account must be specified")
_MISWRITTEN = "Invalid Access Key"
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired")
_UNKNOWN_KEY = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed"),
    *("InvalidAuthenticationInfo", "InvalidToken", "InvalidClientTokenId"),
)
_NOT_ALLOWED = ("AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch")
_ELSEWHERE = ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraint")
_LASTING = ("status code: 4", "status 4", "redirect without LOCATION")
_NOBODY = ("dns error", "tcp connect error", "Connection refused", "error trying to connect")


def is_passing(error: str, has_answered: bool) -> bool:
    """Tells whether a request may succeed when it is sent once more.

    Args:
      error: what obstore says.
      has_answered: whether the store ever did: then it may only be starting again.
    """
    lasting = _LASTING if has_answered else (*_LASTING, *_NOBODY)
    return not any(words in error for words in lasting)


def explain_refusal(uri: str, kind: str, error: str) -> UserError | None:
    """The error that names the variable to correct; None if it is something else."""
    if _MACHINE_S_OWN in error:
        return no_credentials(uri, kind)
    keys, address = _NAMES[kind]
    if any(words in error for words in _INCOMPLETE):
        return UserError(f"{uri}: incomplete credentials. Set both {keys}.")
    if _MISWRITTEN in error:
        return UserError(f"{uri}: its key is not in base64, as keys of Azure are; correct {keys}.")
    code = found[1] if (found := _CODE.search(error)) else ""
    if code in _EXPIRED or (code == "AuthenticationFailed" and "expire" in error.lower()):
        return UserError(f"{uri}: its credentials have expired ({code}); fetch new ones.")
    if code in _UNKNOWN_KEY:
        return UserError(f"{uri}: its store does not accept the key ({code}); correct {keys}.")
    if code in _NOT_ALLOWED:
        return UserError(
            f"{uri}: its store does not allow this with these credentials ({code}); grant it, or "
            f"use others: {keys}."
        )
    if code in _ELSEWHERE or "redirect without LOCATION" in error:
        region = found[1] if (found := _EXPECTED_REGION.search(error)) else "the bucket's"
        return UserError(f"{uri}: the bucket is in another region; set AWS_REGION to {region}.")
    if any(words in error for words in _NOBODY):
        return UserError(
            f"{uri}: its store does not answer at its address; check {address} and the network."
        )
    return None


def no_credentials(uri: str, kind: str) -> UserError:
    """The error for what is nowhere to be found: in the environment, or as the machine's own."""
    return UserError(
        f"{uri}: there are no credentials for it in the environment, and this machine has none of "
        f"its own; {_WAYS_OUT[kind]}."
    )
