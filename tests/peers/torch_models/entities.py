"""Entities of labels such as B-person, I-person and O, counted as seqeval counts those."""


def entities(labels):
    """{(first, behind the last, type)} of one sentence."""
    found, begin, kind = set(), 0, None
    for place, label in enumerate([*labels, "O"]):
        prefix, _, own = label.partition("-")
        goes_on = prefix == "I" and own == kind
        if kind is not None and not goes_on:
            found.add((begin, place, kind))
            kind = None
        if kind is None and prefix in ("B", "I") and own:
            begin, kind = place, own
    return found


def f1(wanted, given):
    """Of the entities of all sentences together."""
    pairs = [(entities(a), entities(b)) for a, b in zip(wanted, given)]
    right = sum(len(a & b) for a, b in pairs)
    total = sum(len(a) + len(b) for a, b in pairs)
    return 2 * right / total if total else 0.0
