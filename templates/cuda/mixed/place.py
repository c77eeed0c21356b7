"""Which tile of which product of a batch a block computes."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.place import TilePlace


@T.meta_class
class ProductPlace(TilePlace):
    """A tile of one of the products of a batch."""

    def __init__(self, m, n, rank, product):
        super().__init__(m, n, rank)
        self.product = product
