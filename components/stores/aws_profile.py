"""Keys, region and address from `~/.aws`, as Amazon's own tools find them there."""

import configparser
import os

from image_pipeline.components.errors import UserError

# By what the files call them, and what obstore does.
_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_PLACE = {"region": "region", "endpoint_url": "endpoint"}


def read_profile(needs_keys: bool) -> dict[str, str]:
    """What the profile `AWS_PROFILE`, or the one called default, says; by obstore's names.

    Args:
      needs_keys: whether its keys are used; else its region and address only.

    Raises:
      UserError: if there is no such profile, a file cannot be read, or the profile has no keys.
    """
    asked = os.environ.get("AWS_PROFILE")
    name = asked or "default"
    keys = _read_section("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name)
    section = name if name == "default" else f"profile {name}"
    config = _read_section("AWS_CONFIG_FILE", "~/.aws/config", section)
    if asked and keys is None and config is None:
        raise UserError(
            f"AWS_PROFILE must name a profile in ~/.aws/credentials or ~/.aws/config, but {name!r} "
            "is in neither; correct it, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    settings = {**(config or {}), **(keys or {})}
    if asked and needs_keys and "aws_access_key_id" not in settings:
        raise UserError(
            f"The profile {name!r} must have aws_access_key_id, but gets its keys in another way "
            "(a role, SSO or a process); fetch them into the environment: "
            f'eval "$(aws configure export-credentials --profile {name} --format env)".'
        )
    wanted = _PLACE | (_KEYS if needs_keys else {})
    return {ours: settings[theirs] for theirs, ours in wanted.items() if settings.get(theirs)}


def _read_section(variable: str, default: str, section: str) -> dict[str, str] | None:
    path = os.path.expanduser(os.environ.get(variable) or default)
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read: {reason}; correct it, or name another by {variable}."
        ) from error
    return dict(parser[section]) if parser.has_section(section) else None
