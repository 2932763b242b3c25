"""Commands of the command line beside those that run the pipeline."""
