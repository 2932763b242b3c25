"""Completion in the shell of option keys and their values, such as those of `--set`."""

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class


def complete_option(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The options' keys that begin like this."""
    from image_pipeline.option_list import first_sentence, list_options

    options = [option for group in list_options() for option in group.options]
    return [
        CompletionItem(option.key, help=first_sentence(option.meaning))
        for option in options
        if option.key.startswith(incomplete)
    ]


def complete_setting(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Continues `KEY=VALUE`: the keys that can be set alone, then their values."""
    from image_pipeline.option_list import list_settable

    key, equals, value = incomplete.partition("=")
    if equals:
        values = next((option.values for option in list_settable() if option.key == key), ())
        return [CompletionItem(f"{key}={each}") for each in values if each.startswith(value)]
    found = (option.key for option in list_settable() if option.key.startswith(key))
    return [CompletionItem(f"{each}=") for each in found]


class _Bash(BashComplete):
    """Bash takes `key=value` for three words, and replaces only the last of them."""

    # No space after a key, which is followed by its value.
    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace",
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is to be completed, and this one."""
        before, current = super().get_completion_args()
        words: list[str] = []
        for word in (*before, current):
            if words and (word == "=" or words[-1].endswith("=")):
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Of `key=value` the value, since the key stands there already."""
        _, _, value = item.value.partition("=")
        return f"{item.type},{value or item.value}"


add_completion_class(_Bash)
