"""The paper's neural, graph and Gaussian-process baselines; learning needs PyTorch, answering does not."""

from starcast.models.neural.gcmc import GCMC
from starcast.models.neural.mlp import MLP
from starcast.models.neural.mwgp import MWGP
from starcast.models.neural.ngcf import NGCF

__all__ = ["GCMC", "MLP", "MWGP", "NGCF"]
