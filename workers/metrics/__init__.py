"""What do two snapshots and a handful of bins say? Pure: values in, values out."""
