"""Comparison of what environments return."""

import numpy as np


def _present(values):
    """Without infos that no env has: Gymnasium leaves them out, ours have an empty mask."""
    absent = {key for key in values if f"_{key}" in values and not values[f"_{key}"].any()}
    return {key: value for key, value in values.items() if key not in absent and key[1:] not in absent}


def assert_equal(ours, peers, where):
    """Equal bits of arrays, also inside of tuples, dictionaries and arrays of objects."""
    if isinstance(peers, dict):
        ours, peers = _present(ours), _present(peers)
        assert set(ours) == set(peers), where
        for key in peers:
            assert_equal(ours[key], peers[key], f"{where}.{key}")
    elif isinstance(peers, tuple) or (isinstance(peers, np.ndarray) and peers.dtype == object):
        assert len(ours) == len(peers), where
        for i, (a, b) in enumerate(zip(ours, peers, strict=True)):
            assert_equal(a, b, f"{where}[{i}]")
    elif peers is None:
        assert ours is None, where
    else:
        assert ours.dtype == peers.dtype and ours.shape == peers.shape, where
        assert ours.tobytes() == peers.tobytes(), where
