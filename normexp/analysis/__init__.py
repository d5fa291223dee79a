"""Turn stored runs into data frames, cells, comparisons and conclusions."""
