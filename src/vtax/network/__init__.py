"""The lab: namespaces, links and topologies that vtax makes and nothing else can reach."""
