"""Records of single trials, apart from those of comparisons, which repeat some of them."""

from autoq.records import read_records


def trials_of(path):
    """The trials of a record file in its order."""
    return [record for record in read_records(path).records if not record.confirmed]
