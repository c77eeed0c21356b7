"""Which part of the output a block of the mma.sync product computes."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.mixed.place import ProductPlace


@T.meta_class
class SyncPlace(ProductPlace):
    """A tile of one of the products of a batch; split: the part of its reduction."""

    def __init__(self, plan, m, n, product, split):
        super().__init__(m, n, 0, product)
        self.plan = plan
        self.split = split

    @property
    def first_x(self):
        """The product's first row among the rows of x of all products."""
        return self.product * self.plan.workload.m

    @property
    def weight_n(self):
        """The tile among those of all products' weight rows."""
        return self.product * self.plan.n_tiles + self.n

    @property
    def first_y(self):
        """The first row, of the product and part, among the rows of everything that is written."""
        rows = self.plan.workload.y_shape[-2]
        return (self.split * self.plan.workload.batch + self.product) * rows


def place_of(plan, block):
    """(m, n, product, split) of a block."""
    tile, split = block % plan.tiles, block // plan.tiles
    product = 0
    if plan.workload.batch > 1:
        tile, product = tile % plan.product_tiles, tile // plan.product_tiles
    m, n = tile_of(tile, plan.m_tiles, plan.n_tiles, plan.config.group_m)
    return m, n, product, split
