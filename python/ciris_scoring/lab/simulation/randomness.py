"""Counter-based generator of random numbers: each number is a function of its purpose (stream, counter and draw).

The mixing function is that of splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators",
OOPSLA '14). Only integer arithmetic, and addition, multiplication and division of floats are used, because their
results are the same on every machine and with every version of numpy.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Self

import numpy as np
import numpy.typing as npt

from ciris_scoring.lab.simulation.arrays import Bits, Flags, Floats, Ints


class Stream(IntEnum):
    """Independent streams of random numbers, one for each kind of item that has random properties."""

    TRACE = auto()
    TASK = auto()
    BLOCK = auto()
    DAY = auto()
    DEFERRAL = auto()
    ODD_DEFERRAL = auto()
    BATCH = auto()


class Draw(IntEnum):
    """Number of each random draw for an item, such as a trace. A draw of n words uses n consecutive numbers."""

    ACTION = auto()
    PLAUSIBILITY = auto()
    ALIGNMENT = auto()
    COHERENCE = auto()
    ENTROPY = auto()
    K_EFF = auto()
    SUCCESS = auto()
    SIGNED = auto()
    OVERRIDDEN = auto()
    CAUSE = auto()
    INCONSISTENT = auto()
    DUPLICATE = auto()
    DELAY = auto()
    RESIGNED = auto()
    REPROCESSED = auto()
    ONLY_ACTION = auto()
    BLANK = auto()
    DIRTY = auto()
    PROSE = 20
    START = auto()
    PAUSE = auto()
    SECOND_PAUSE = auto()
    PRIORITY = auto()
    DURATION = auto()
    CONTRADICTION = auto()
    COUNT = auto()
    EPISODE = auto()
    EPISODE_SHAPE = auto()
    STATUS = auto()
    ATTRIBUTION = auto()
    IDENTIFIER = 100
    AUDIT_HASH = 110
    SIGNATURE = 120
    SECOND_SIGNATURE = 130


def word(n: int) -> np.uint64:
    """Spread small integers over 64 bits by multiplying with the increment of splitmix64."""
    return np.uint64(n * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)


def mix(x: Bits) -> Bits:
    """Scramble 64-bit words by the finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Draws:
    """Generators of random numbers for an array of items. Each item has a key; draws can be made in any order."""

    keys: Bits

    @classmethod
    def of(cls, agent_keys: Bits, stream: Stream, counters: npt.ArrayLike) -> Self:
        """Return the generators of items, given the keys of their agents and their numbers in the agent's stream."""
        stream_keys = mix(agent_keys ^ word(stream))
        return cls(mix(stream_keys + np.asarray(counters).astype(np.uint64) * word(1)))

    def bits(self, draw: int) -> Bits:
        """Return one word of 64 random bits per item."""
        return mix(self.keys + word(draw))

    def below(self, draw: int, n: int | Ints) -> Ints:
        """Return one random integer in [0, n) per item, for n up to 2³¹."""
        return ((self.bits(draw) >> np.uint64(33)).astype(np.int64) * n) >> 31

    def uniform(self, draw: int) -> Floats:
        """Return one random number in [0, 1) per item."""
        return (self.bits(draw) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def chance(self, draw: int, share: float | Floats) -> Flags:
        """Return one flag per item, which is true with the probability `share`."""
        return self.uniform(draw) < share

    def bell(self, draw: int) -> Floats:
        """Return numbers with mean 0 and standard deviation 1, from -3.47 to 3.47: scaled sums of four uniform
        numbers, which are almost normal."""
        lanes = self.bits(draw).view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int64)
        result: Floats = (lanes - 131_070).astype(np.float64) / 37_837.0
        return result

    def octets(self, draw: int, words: int) -> npt.NDArray[np.uint8]:
        """Return random bytes, 8 · words per item."""
        fields = np.array([word(draw + i) for i in range(words)])
        return mix(self.keys[:, None] + fields).astype("<u8").view(np.uint8)

    def hexadecimal(self, draw: int, words: int, length: int) -> list[str]:
        """Return one text of `length` hexadecimal digits per item. The length is at most 16 · words."""
        return slices(self.octets(draw, words).tobytes().hex(), 16 * words, length)

    def uuids(self) -> list[str]:
        """Return one identifier per item, in the format of random UUIDs."""
        digits = self.hexadecimal(Draw.IDENTIFIER, 2, 32)
        return [f"{d[:8]}-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:]}" for d in digits]


def slices(text: str, step: int, length: int) -> list[str]:
    """Divide a text into pieces of `step` characters, and return the first `length` characters of each."""
    return [text[i : i + length] for i in range(0, len(text), step)]
