"""Inputs made to do harm, and what the pipeline does with them."""
