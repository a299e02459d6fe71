"""Six words by which a person sees that the hub and a box speak of the same keys."""

import hashlib
import struct

COUNT = 6
# 256: one a byte. Short, of one spelling, and none that is easily taken for another when read out.
_LIST = """
    acorn actor album alder amber ankle apple apron arch arrow atlas attic
    bacon badge baker bamboo banjo barrel basil basket bead beach beetle bench
    berry bicycle birch biscuit blanket blossom bonnet border bottle branch
    brass bridge broom bubble bucket butter button cabin cactus camel canal
    candle canoe canvas carbon cargo carpet carrot castle cedar cello cherry
    chess chimney circle citrus clay clock cloud clover cobalt coconut comet
    copper coral corner cotton cradle crane crayon cricket crystal cube cushion
    daisy dancer delta denim desert diamond dolphin domino donkey dragon drawer
    drum eagle easel echo elbow ember emerald engine fabric falcon feather
    fennel ferry fiddle finch flag flame flute forest fossil fountain fox
    galaxy garden garlic gecko ginger giraffe glacier globe goblet gold grape
    gravel guitar hammer harbor hazel hedge helmet heron hinge honey horizon
    igloo indigo island ivory jacket jasmine jigsaw jungle juniper kayak kettle
    kitchen koala ladder lagoon lantern lapel laurel lava lemon leopard lilac
    linen lizard lobster lotus magnet mango maple marble meadow melon meteor
    mirror mitten monkey mosaic moth mountain muffin mustard napkin nectar
    needle nickel nutmeg oasis ocean olive onion opal orbit orchid otter oven
    oyster paddle palace panda paper parrot peach pebble pelican pencil pepper
    pigeon pillow pirate planet plum pocket poem pony poplar potato prism
    pumpkin puzzle pyramid quartz quilt rabbit radish raven ribbon river robin
    rocket saddle saffron salmon sandal satin saturn scarf shadow shell silver
    spider sponge spruce squash statue stone sugar summer sunset swan table
    temple thimble thunder tiger timber tomato tulip tunnel turtle umbrella
    valley velvet violin
"""
WORDS = tuple(_LIST.split())


def make_words(*parts: bytes) -> str:
    """The same for the same parts in the same order; 48 bits, so that nobody makes a second key
    with the same ones while a token lasts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack(">I", len(part)))
        digest.update(part)
    return " ".join(WORDS[byte] for byte in digest.digest()[:COUNT])
