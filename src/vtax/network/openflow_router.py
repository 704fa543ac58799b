"""The OpenFlow 1.3 controller that runs inside the guest: an application of os-ken, sent into it as it stands.

It decides where packets go and never carries them: the first packet of a flow reaches it, the flow it then installs
in the switch carries the rest. VTAX_CONTROLLER in its environment is a JSON object: `routes`, one for each port of
the switch with `port`, `network` (prefix), `gateway` (address and mac of the router on that network) and `hosts`
(address -> mac); `cookie`, of the flows it installs for them.
"""

# mypy: disable-error-code="misc,no-untyped-call,import-not-found,import-untyped,untyped-decorator"

from __future__ import annotations

import ipaddress
import json
import os
from typing import Any, ClassVar

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import arp, ether_types, ethernet, ipv4, packet, tcp, udp
from os_ken.ofproto import ofproto_v1_3


class Router(app_manager.OSKenApp):
    """Routes IPv4 between networks, one flow of the switch per transport connection."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        configuration = json.loads(os.environ["VTAX_CONTROLLER"])
        self.routes = configuration["routes"]
        self.cookie = configuration["cookie"]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def switch_appeared(self, event: Any) -> None:
        """Request the first packet of every flow, whole."""
        datapath = event.msg.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        to_controller = parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)
        self._install(datapath, 0, parser.OFPMatch(), [to_controller], cookie=0)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_arrived(self, event: Any) -> None:
        """Reply for the gateways; install a flow for every connection and forward its first packet."""
        message = event.msg
        frame = packet.Packet(message.data)
        request, datagram = frame.get_protocol(arp.arp), frame.get_protocol(ipv4.ipv4)
        in_port = message.match["in_port"]
        if request is not None and request.opcode == arp.ARP_REQUEST:
            self._reply(message.datapath, in_port, frame.get_protocol(ethernet.ethernet), request)
        elif datagram is not None:
            self._route(message, in_port, frame, datagram)

    def _reply(self, datapath: Any, in_port: int, header: Any, request: Any) -> None:
        for route in self.routes:
            gateway = route["gateway"]
            if route["port"] == in_port and gateway["address"] == request.dst_ip:
                reply = packet.Packet()
                reply.add_protocol(
                    ethernet.ethernet(header.src, gateway["mac"], ether_types.ETH_TYPE_ARP)
                )
                reply.add_protocol(
                    arp.arp(
                        opcode=arp.ARP_REPLY,
                        src_mac=gateway["mac"],
                        src_ip=request.dst_ip,
                        dst_mac=request.src_mac,
                        dst_ip=request.src_ip,
                    )
                )
                reply.serialize()
                self._send(datapath, [datapath.ofproto_parser.OFPActionOutput(in_port)], reply.data)

    def _route(self, message: Any, in_port: int, frame: packet.Packet, datagram: Any) -> None:
        datapath = message.datapath
        parser = datapath.ofproto_parser
        target = ipaddress.ip_address(datagram.dst)
        for route in self.routes:
            if target in ipaddress.ip_network(route["network"]) and datagram.dst in route["hosts"]:
                fields = {
                    "eth_type": ether_types.ETH_TYPE_IP,
                    "ipv4_src": datagram.src,
                    "ipv4_dst": datagram.dst,
                }
                fields |= {"in_port": in_port, "ip_proto": datagram.proto}
                for name, kind in (("tcp", tcp.tcp), ("udp", udp.udp)):
                    segment = frame.get_protocol(kind)
                    if segment is not None:
                        fields |= {f"{name}_src": segment.src_port, f"{name}_dst": segment.dst_port}
                actions = [
                    parser.OFPActionSetField(eth_src=route["gateway"]["mac"]),
                    parser.OFPActionSetField(eth_dst=route["hosts"][datagram.dst]),
                    parser.OFPActionDecNwTtl(),
                    parser.OFPActionOutput(route["port"]),
                ]
                self._install(datapath, 10, parser.OFPMatch(**fields), actions, self.cookie)
                self._send(datapath, actions, message.data, in_port)

    def _install(
        self, datapath: Any, priority: int, match: Any, actions: list[Any], cookie: int
    ) -> None:
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath, priority=priority, match=match, instructions=[apply], cookie=cookie
            )
        )

    def _send(
        self, datapath: Any, actions: list[Any], data: bytes, in_port: int | None = None
    ) -> None:
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath,
                buffer_id=protocol.OFP_NO_BUFFER,
                in_port=protocol.OFPP_CONTROLLER if in_port is None else in_port,
                actions=actions,
                data=data,
            )
        )
