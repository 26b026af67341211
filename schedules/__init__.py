"""How islands should talk: costs, bounds, trees and plans of rotating cliques."""
