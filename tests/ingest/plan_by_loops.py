"""What a plan is, in plain loops over all sources at once, each step as the words say it."""

import itertools

import numpy as np

from image_pipeline.components.ingest.plan import NOWHERE, count_shards, order_keys, shard_edges


def place_by_loops(rows, options):
    """Where each source goes.

    Args:
      rows: of each source its columns of `plan.SOURCE`, or None if it is not usable.
      options: of ingest; no split is empty.

    Returns:
      For each source its first copy, the first one of the same bytes with another label, its shard
      and its position; and the sets that look alike, of which each member has number and split.
    """
    usable = [n for n, row in enumerate(rows) if row is not None]
    copies, conflicts = list(range(len(rows))), [NOWHERE] * len(rows)
    for n in usable:
        same = [m for m in usable if rows[m].content.tolist() == rows[n].content.tolist()]
        others = [m for m in same if rows[m].label_hash != rows[n].label_hash]
        if others and options.conflicting_labels != "keep":
            conflicts[n] = others[0]
        else:
            copies[n] = same[0]
    good = [n for n in usable if conflicts[n] == NOWHERE]
    written = [n for n in good if copies[n] == n or options.duplicates != "keep_first"]
    bits = options.near_duplicates
    alike = _join(
        good,
        lambda n, m: (
            bits is not None
            and (int(rows[n].perceptual_hash) ^ int(rows[m].perceptual_hash)).bit_count() <= bits
        ),
    )
    together = _join(
        good,
        lambda n, m: (
            rows[n].group == rows[m].group or copies[n] == copies[m] or alike[n] == alike[m]
        ),
    )
    hashes = {}
    for n in good:
        groups = [rows[m].group for m in good if together[m] == together[n]]
        hashes[n] = min(groups, key=lambda group: group.byteswap())
    split = _choose_splits(rows, good, written, copies, hashes, options)
    places, sets, shards = [(NOWHERE, NOWHERE)] * len(rows), {}, 0
    for code in range(len(options.splits)):
        own = [n for n in written if split[n] == code]
        ids = {n: rows[n].record_id for n in own}
        own.sort(key=lambda n: (order_keys(ids[n][None], options.seed)[0], *ids[n].tolist()))
        stored = int(sum(rows[n].stored_bytes for n in own))
        edges = shard_edges(
            len(own), count_shards(stored, len(own), options.shard_bytes, options.shards)
        )
        for shard, (start, end) in enumerate(itertools.pairwise(edges)):
            for position, n in enumerate(own[start:end]):
                places[n] = (shards + shard, position)
        shards += len(edges) - 1
    for n in good:
        if copies[n] == n:
            sets.setdefault(alike[n], []).append((n, int(split[n])))
    return (
        [(*each, *place) for *each, place in zip(copies, conflicts, places, strict=True)],
        [sets[number] for number in sorted(sets) if len(sets[number]) > 1],
    )


def _join(numbers, are_linked):
    """The smallest number that each is linked with, directly or through others."""
    joined = {n: n for n in numbers}
    changes = True
    while changes:
        changes = False
        for n in numbers:
            smallest = min(joined[m] for m in numbers if m == n or are_linked(n, m))
            changes |= smallest != joined[n]
            joined[n] = smallest
    return joined


def _choose_splits(rows, good, written, copies, hashes, options):
    edges = np.cumsum(list(options.splits.values()))[:-1]
    split = {}
    for n in good:
        path = rows[copies[n]].forced_split
        named = [rows[copies[m]].forced_split for m in good if hashes[m] == hashes[n]]
        named = [each for each in named if each != NOWHERE]
        split[n] = path if path != NOWHERE else min(named, default=NOWHERE)
    free = [n for n in written if split[n] == NOWHERE]
    if not options.stratify:
        split |= {n: int((hashes[n] / 2.0**64 >= edges).sum()) for n in free}
    units = {}
    for n in free if options.stratify else ():
        units.setdefault(hashes[n], []).append(n)
    strata = {}
    for unit in sorted(units):
        strata.setdefault(rows[units[unit][0]].stratum, []).append(unit)
    learned = "train" in options.splits and any(len(own) > 1 for own in strata.values())
    for own in strata.values():
        fraction, begin = own[0].byteswap() / 2.0**64, 0
        total = float(sum(len(units[unit]) for unit in own))
        for unit in own:
            point = begin + fraction * len(units[unit])
            code = sum(bool(point >= edge * total) for edge in edges)
            if unit == own[0] and learned:
                code = list(options.splits).index("train")
            split |= dict.fromkeys(units[unit], code)
            begin += len(units[unit])
    if options.duplicates == "keep_as_given":
        own_paths = {n: rows[n].forced_split for n in written}
        split |= {n: path for n, path in own_paths.items() if path != NOWHERE}
    return split
