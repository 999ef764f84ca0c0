"""A generated stand-in for the package descriptions: short texts of 20 topics.

Each text mixes words of its topic with words of any topic and with words of none, so that a model
has to weigh several words; one text in twelve carries another topic's label, which bounds the accuracy.
"""

import random

TOPICS = {
    "astronomy": "telescope planet orbit galaxy comet eclipse nebula star asteroid crater",
    "baking": "flour oven dough yeast pastry crust butter loaf icing biscuit",
    "chemistry": "acid molecule reagent solvent catalyst polymer titration ion crystal isotope",
    "cinema": "director screenplay actor camera scene premiere trailer studio script subtitle",
    "cycling": "pedal saddle helmet gear chain spoke sprint brake tyre frame",
    "databases": "query index table schema transaction replica backup column cursor trigger",
    "farming": "tractor harvest barley orchard livestock plough irrigation barn seed pasture",
    "finance": "loan dividend mortgage audit invoice currency bond interest tax portfolio",
    "football": "goal referee striker penalty stadium league defender midfield trophy coach",
    "gardening": "tulip compost pruning hedge lawn greenhouse weed bulb trellis rake",
    "geology": "granite fault sediment volcano mineral basalt erosion fossil quartz glacier",
    "law": "court verdict witness contract lawsuit statute judge appeal clause testimony",
    "medicine": "surgeon vaccine diagnosis artery symptom clinic dosage fever bandage nurse",
    "music": "violin chord melody drummer concert rhythm soprano piano album tempo",
    "networking": "router packet firewall gateway latency subnet proxy socket bandwidth switch",
    "painting": "canvas brush pigment portrait easel gallery fresco varnish palette sketch",
    "politics": "senate ballot minister campaign treaty parliament coalition veto embassy policy",
    "sailing": "anchor mast rudder harbour keel buoy spinnaker tide deck lighthouse",
    "sewing": "needle thread fabric button zipper hem bobbin pattern lace stitch",
    "weather": "thunder drizzle forecast humidity blizzard breeze barometer frost monsoon cloud",
}
FILLERS = (
    "a small simple modern old new useful complete basic second common large quiet sudden careful "
    "set of the with for about and near under after during without against between report note guide story list"
).split()


def rows(count, seed=0):
    """`count` pairs of text and topic, the same ones for the same seed."""
    generator = random.Random(seed)
    return [row(generator) for _ in range(count)]


def row(generator):
    topics = list(TOPICS)
    topic = generator.choice(topics)
    own = generator.choices(TOPICS[topic].split(), k=generator.randint(1, 3))
    strange = [generator.choice(TOPICS[generator.choice(topics)].split()) for _ in range(generator.randint(0, 2))]
    words = own + strange + generator.choices(FILLERS, k=generator.randint(2, 14))
    generator.shuffle(words)
    label = generator.choice(topics) if generator.random() < 1 / 12 else topic
    return " ".join(words).capitalize(), label
