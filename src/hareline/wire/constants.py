"""Numbers of the AMQP 0-9-1 wire. Source: the specification, sections 1.2 and 4.2."""

from __future__ import annotations

from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_HEADER_0_9: Final = b"AMQP\x01\x01\x00\x09"  # sent by 0-9 clients; RabbitMQ takes it

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_END_OCTET: Final = b"\xce"

FRAME_HEAD_SIZE: Final = 7  # type octet, channel short, payload size long
FRAME_OVERHEAD: Final = 8  # head + end octet
FRAME_MIN_SIZE: Final = 4096  # smallest frame_max a peer may negotiate
FRAME_MAX_BEFORE_TUNE: Final = 8192

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CLASS_BASIC: Final = 60

# class << 16 | method, as it stands in the first four octets of a method payload
BASIC_PUBLISH: Final = 0x003C0028
BASIC_RETURN: Final = 0x003C0032
BASIC_DELIVER: Final = 0x003C003C
BASIC_GET_OK: Final = 0x003C0047
BASIC_ACK: Final = 0x003C0050
BASIC_NACK: Final = 0x003C0078

# property flags of a basic content header, most significant first
FLAG_CONTENT_TYPE: Final = 0x8000
FLAG_CONTENT_ENCODING: Final = 0x4000
FLAG_HEADERS: Final = 0x2000
FLAG_DELIVERY_MODE: Final = 0x1000
FLAG_PRIORITY: Final = 0x0800
FLAG_CORRELATION_ID: Final = 0x0400
FLAG_REPLY_TO: Final = 0x0200
FLAG_EXPIRATION: Final = 0x0100
FLAG_MESSAGE_ID: Final = 0x0080
FLAG_TIMESTAMP: Final = 0x0040
FLAG_TYPE: Final = 0x0020
FLAG_USER_ID: Final = 0x0010
FLAG_APP_ID: Final = 0x0008
FLAG_CLUSTER_ID: Final = 0x0004

PERSISTENT_MODE: Final = 2  # the delivery mode

DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"  # as a property or a queue's name

BODY_SIZE_MAX: Final = 536_870_912  # the absolute cap RabbitMQ names in its 501 and 406 texts
SHORTSTR_MAX_OCTETS: Final = 255
