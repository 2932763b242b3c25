"""YAML that a person wrote: what is ambiguous or out of bounds is an error with its line."""

import sys
from typing import Any

import yaml

from image_pipeline.components.messages import show

# Far more than a configuration has, and so few that the rest of the program can handle them: it
# follows nested values by recursion, and visits a value once for each alias.
MOST_CHARACTERS = 2**24
_MOST_VALUES, _MOST_DEPTH, _MOST_DIGITS = 10**6, 50, 100


def parse_yaml(text: str) -> Any:
    """Parses one document of plain values.

    Raises:
      yaml.YAMLError: if it is none, gives a key twice, or is longer or nested deeper than any
        configuration; also once aliases are followed.
    """
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"it is longer than {MOST_CHARACTERS:,} characters")
    try:
        return yaml.load(text, _Loader)
    except (OverflowError, ValueError) as error:  # Of "\U00110000", and nothing else.
        raise yaml.YAMLError("quoted text escapes a character that does not exist") from error


class _Loader(yaml.SafeLoader):
    """PyYAML's, which keeps the last of two equal keys, and raises other errors than its own."""

    def __init__(self, text: str):
        super().__init__(text)
        self._depth = 0
        # How many values a composed node has, and how deep they are nested, aliases followed.
        self._measured: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Refuses what is too deep while it is read, and what is too large with its aliases."""
        self._depth += 1
        mark, is_alias = self.peek_event().start_mark, self.check_event(yaml.AliasEvent)
        self._check(self._depth, 1, mark)
        node = super().compose_node(parent, index)
        assert node is not None  # There is an event for it.
        self._depth -= 1
        if node not in self._measured:
            if is_alias:
                problem = "an alias of a value that contains it"
                raise yaml.composer.ComposerError(None, None, problem, mark)
            found = [self._measured[child] for child in _list_children(node)]
            values = 1 + sum(count for count, _ in found)
            depth = 1 + max((below for _, below in found), default=0)
            self._check(depth, values, mark)
            self._measured[node] = values, depth
        return node

    def _check(self, depth: int, values: int, mark: yaml.Mark) -> None:
        problem = None
        if depth > _MOST_DEPTH:
            problem = f"values are nested more than {_MOST_DEPTH} deep"
        elif values > _MOST_VALUES:
            problem = f"there are more than {_MOST_VALUES:,} values, those of aliases included"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, mark)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuses a key that comes twice; one that a merge (`<<`) brings may be overridden."""
        node = super().compose_mapping_node(anchor)
        first: dict[object, yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            key.value = sys.intern(key.value)  # PyYAML 6.0.4 compares keys to merge by identity.
            before = first.setdefault(_name_key(key), key)
            if before is not key:
                line = before.start_mark.line + 1
                problem = f"the key {show(key.value)} is given twice, first in line {line}"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leaves of each key the value that counts: PyYAML 6.0.4 would merge the first on."""
        super().flatten_mapping(node)
        node.value = [*{_name_key(key): (key, value) for key, value in node.value}.values()]

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Turns all that a value can be wrong in into PyYAML's own error."""
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"{show(node.value)} is not a valid {_KINDS.get(kind, kind)}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Refuses what Python cannot print."""
        if len(node.value) > _MOST_DIGITS:
            problem = f"a number of more than {_MOST_DIGITS} digits"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_yaml_int(node)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """Refuses half a character, which no file can hold."""
        text = super().construct_scalar(node)
        text.encode()
        return text


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_KINDS = {"str": "text", "int": "number", "float": "number", "bool": "true or false"}


def _name_key(key: yaml.Node) -> object:
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key


def _list_children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
