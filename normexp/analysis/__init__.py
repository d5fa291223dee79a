"""From stored runs to data frames, cells, comparisons and conclusions."""
