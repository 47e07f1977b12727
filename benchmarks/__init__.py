"""What the developers measure with: speed and size, clusters, the API's load, the coverage of the intervals."""
