"""Publishing a run: scores in the Hub's format, a model card, and a push that says first what would leave."""
