"""The calculations behind the predictions of papers."""
