"""Points in the plane: sorting, convex hulls, Delaunay triangulations, tours."""
