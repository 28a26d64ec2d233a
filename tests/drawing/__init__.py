"""A flow as a picture, an outline, a chart."""
