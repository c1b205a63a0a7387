"""The GPU road: Triton kernels behind the torch extra, the same functions of the same ratings as on the CPU.

Nothing here is imported before a model asks for ``device="cuda"``. With ``TRITON_INTERPRET=1`` set before Triton is
imported, the kernels run in its interpreter, on a machine without a GPU: slowly, and the same way.
"""

import importlib.util

from starcast.errors import MissingExtraError

for _module, _library in (("torch", "PyTorch"), ("triton", "Triton")):
    if importlib.util.find_spec(_module) is None:
        raise MissingExtraError("the GPU", _library, "torch")
