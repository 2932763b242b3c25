"""The seeds' headline, measured: one recipe and one model, fed in three ways."""
