"""The calculations that the article makes or implies."""
