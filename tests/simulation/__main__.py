"""Replay one seed of the simulation, with what the workers log."""

import logging
import sys

from tests.simulation.world import simulate

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)-7s %(message)s", stream=sys.stdout)
    print(simulate(int(sys.argv[1])).starts, "handlers started, nothing violated")
