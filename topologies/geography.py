"""From places to delays: great circles, and light in glass.

Light in fibre travels about 204 km in a millisecond (the vacuum's 299.79 km/ms over a refractive
index of about 1.47). Real cables are longer than the great circle, so a delay computed from two
cities' positions is a lower limit; one computed from a known route length is a fair estimate.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

FIBRE_KM_PER_MS = 204.0
EARTH_MEAN_RADIUS_KM = 6371.0088


def fibre_delay_ms(distance_km: float) -> float:
    """Return the one-way delay of that much fibre, rounded to a whole nanosecond."""
    return round(distance_km / FIBRE_KM_PER_MS, 6)


def great_circle_km(
    latitude_a: float, longitude_a: float, latitude_b: float, longitude_b: float
) -> float:
    """Return the shortest distance over the sphere between two places given in degrees.

    Source: the haversine formula with the Earth's mean radius (IUGG), good to 0.5 %.
    """
    lat_a, lat_b = radians(latitude_a), radians(latitude_b)
    half_lat, half_lon = (lat_b - lat_a) / 2, radians(longitude_b - longitude_a) / 2
    chord = sin(half_lat) ** 2 + cos(lat_a) * cos(lat_b) * sin(half_lon) ** 2
    return 2 * EARTH_MEAN_RADIUS_KM * asin(sqrt(min(1.0, chord)))
