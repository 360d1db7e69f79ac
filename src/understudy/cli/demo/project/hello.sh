#!/bin/sh
# Greets whoever is named, or the world.
name=${1:-world}
echo "Helo, $name!"
