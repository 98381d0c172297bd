"""Published prices of providers, from the package genai-prices: `pip install "pilotage[prices]"`.

Nothing is fetched: the prices are those of the installed version of the package.
"""

from pilotage.adapters.prices.genai import GenaiPrices

__all__ = ["GenaiPrices"]
