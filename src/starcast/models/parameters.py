"""The grammar of parameters that all models speak: stored by the constructor, read, set, copied and shown by name."""

import inspect
from typing import Any, Self

from starcast.errors import ParameterError, choose


class Parametrized:
    """Something whose constructor stores its arguments under their names and does nothing else."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters as given to the constructor; no parameter has parameters of its own, so `deep`, which
        scikit-learn passes, makes no difference."""
        return {name: getattr(self, name) for name in _parameter_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name and return self."""
        for name, value in params.items():
            choose(f"parameter of {type(self).__name__}", name, _parameter_names(type(self)))
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """Return an unfitted model with the same parameters."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        params = self.get_params()
        return f"{type(self).__name__}({', '.join(f'{k}={params[k]!r}' for k in self._changed_params())})"

    def _changed_params(self) -> list[str]:
        """Return the names of the parameters that differ from their defaults."""
        given = inspect.signature(type(self).__init__).parameters
        return [k for k, v in self.get_params().items() if v is not given[k].default and v != given[k].default]


def check_engine(engine: Any) -> Any:
    """Return the engine of a fit, which may be given by its name, or raise an error if it is none."""
    if isinstance(engine, str):
        from starcast.distributed.engine import RayEngine  # it imports the models

        choose("engine", engine, ["ray"])
        return RayEngine()
    if isinstance(engine, type) or not hasattr(engine, "fit"):
        raise ParameterError(f'engine must be "ray" or a RayEngine, such as RayEngine(workers=2), got {engine!r}.')
    return engine


def _parameter_names(cls: type[Parametrized]) -> list[str]:
    if cls.__init__ is object.__init__:  # it takes none
        return []
    return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
