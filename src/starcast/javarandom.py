"""java.util.Random, bit by bit: the paper's splits, folds and starting points hang on it."""

import numpy as np
import numpy.typing as npt

MULTIPLIER = 0x5DEECE66D
INCREMENT = 0xB
MASK = (1 << 48) - 1


class JavaRandom:
    """The linear congruential generator of Java, many draws at a time.

    >>> JavaRandom(42).next_doubles(2).round(6).tolist()
    [0.727564, 0.683223]
    """

    def __init__(self, seed: int) -> None:
        self.state = (int(seed) ^ MULTIPLIER) & MASK  # int: NumPy's integers would overflow

    def next_bits(self, bits: int, n: int) -> npt.NDArray[np.uint64]:
        """Return the top `bits` of the next `n` states."""
        states = self._advance(n)
        return states >> np.uint64(48 - bits)

    def next_floats(self, n: int) -> npt.NDArray[np.float64]:
        """Return `n` floats in [0, 1), 24 bits each."""
        return self.next_bits(24, n) / 2.0**24

    def next_doubles(self, n: int) -> npt.NDArray[np.float64]:
        """Return `n` doubles in [0, 1), 53 bits each."""
        states = self._advance(2 * n).reshape(n, 2)
        high, low = states[:, 0] >> np.uint64(22), states[:, 1] >> np.uint64(21)
        return ((high << np.uint64(27)) + low) * 2.0**-53

    def next_int(self, bound: int) -> int:
        """Return a whole number in 0..bound-1."""
        bits = self._next31()
        if bound & (bound - 1) == 0:
            return (bound * bits) >> 31
        while bits - bits % bound + bound - 1 >= 1 << 31:  # the last, incomplete run of remainders is drawn again
            bits = self._next31()
        return bits % bound

    def shuffle(self, n: int) -> npt.NDArray[np.int64]:
        """Return what ``Collections.shuffle`` makes of the list 0..n-1."""
        order = list(range(n))
        for at in range(n, 1, -1):
            other = self.next_int(at)
            order[at - 1], order[other] = order[other], order[at - 1]
        return np.array(order, np.int64)

    def _next31(self) -> int:
        self.state = (self.state * MULTIPLIER + INCREMENT) & MASK
        return self.state >> 17

    def _advance(self, n: int) -> npt.NDArray[np.uint64]:
        """Return the next `n` states: k steps at once are again one multiplication and one addition.

        Products wrap at 64 bits, which leaves their lower 48 bits, all that is used, as they are.
        """
        states = np.empty(n, np.uint64)
        if n == 0:
            return states
        states[0] = (self.state * MULTIPLIER + INCREMENT) & MASK
        done, factor, term = 1, MULTIPLIER, INCREMENT
        while done < n:
            step = min(done, n - done)
            states[done : done + step] = (states[:step] * np.uint64(factor) + np.uint64(term)) & np.uint64(MASK)
            done += step
            factor, term = factor * factor & MASK, (factor * term + term) & MASK
        self.state = int(states[-1])
        return states
