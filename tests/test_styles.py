"""The rules on styles find what breaks them."""

from tests import styles

TOKENS = {"--size-13", "--space-8", "--shadow-1"}


def test_a_rule_says_where_it_is_broken() -> None:
    failed = []
    for declaration, is_fine in (
        ("font-size: var(--size-13);", True),
        ("font-size: inherit;", True),
        ("font-size: 13px;", False),
        ("font-size: 0.9em;", False),
        ("font-size: var(--size-15);", False),
        ("padding: 0 var(--space-8) 1px auto;", True),
        ("padding: 12px;", False),
        ("padding-inline: var(--space-8) 0.3rem;", False),
        ("margin: calc(-1 * var(--space-8)) -2px;", True),
        ("margin-block: calc(var(--space-8) + 1em);", False),
        ("padding-block-end: calc(var(--space-8) + env(safe-area-inset-bottom, 0rem));", True),
        ("gap: var(--space-9);", False),
        ("row-gap: 5px;", False),
        ("box-shadow: var(--shadow-1);", True),
        ("box-shadow: inset 0 -2px var(--accent);", True),
        ("box-shadow: 0 2px 8px black;", False),
        ("/* padding: 12px; */", True),
        ("width: 12px;", True),
    ):
        found = list(styles.find_faults(f".thing {{\n  {declaration}\n}}\n", TOKENS))
        if (found == []) != is_fine or any(line != 2 for line, _fault in found):
            failed.append((declaration, found))
    assert failed == []
