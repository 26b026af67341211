"""What the network is: sites, links, files, routes. Pure data with units."""
