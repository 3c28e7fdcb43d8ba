package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Destinations that name an exchange, a key and a queue, with the body as it is on the wire. */
class AmqpDestinationTest extends RabbitCase {
  /** A destination that writes by amq.direct and reads the queue, which the observer declares. */
  private RMQDestination destination() throws Exception {
    String name = queue(Map.of()).getQueueName();
    return new RMQDestination(name, "amq.direct", name, name);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @Test
  void textIsTheBodyItself() throws Exception {
    RMQDestination destination = destination();
    send(destination, "grün");
    observer.awaitReady(destination.getAmqpQueueName(), 1);
    assertArrayEquals(bytes("grün"), observer.take(destination.getAmqpQueueName()).getBody());
  }

  @Test
  void bytesAreTheBodyItself() throws Exception {
    RMQDestination destination = destination();
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(new byte[] {0, 1, 2, (byte) 0xce});
    session.createProducer(destination).send(message);
    Message received = take(session.createConsumer(destination));
    assertArrayEquals(new byte[] {0, 1, 2, (byte) 0xce}, received.getBody(byte[].class));
  }

  @Test
  void aTextMayKeepItsType() throws Exception {
    RMQDestination destination = destination();
    RMQConnectionFactory keeping = factory();
    keeping.setKeepTextMessageType(true);
    Session own = open(keeping).createSession(Session.AUTO_ACKNOWLEDGE);
    send(own, destination, "a text");
    MessageConsumer consumer = session.createConsumer(destination);
    assertEquals("a text", assertInstanceOf(TextMessage.class, take(consumer)).getText());
    send(session, destination, "octets");
    assertInstanceOf(BytesMessage.class, take(consumer));
  }

  @Test
  void otherKindsAreRefused() throws Exception {
    RMQDestination destination = destination();
    assertThrows(
        JMSException.class,
        () -> session.createProducer(destination).send(session.createMapMessage()));
  }

  @Test
  void aDestinationWithoutExchangeIsForReading() throws Exception {
    String name = queue(Map.of()).getQueueName();
    RMQDestination readable = new RMQDestination(name, null, null, name);
    assertThrows(JMSException.class, () -> send(readable, "x"));
    observer.publish(name, new BasicProperties(), bytes("from elsewhere"));
    Message received = take(session.createConsumer(readable));
    assertEquals(
        "from elsewhere", new String(received.getBody(byte[].class), StandardCharsets.UTF_8));
  }

  @Tag("M22")
  @Test
  void exchangeKeyAndPropertiesArriveAsTheyWereSent() throws Exception {
    Queue queue = queue();
    Message message = session.createTextMessage("x");
    message.setByteProperty("byte", (byte) 1);
    message.setShortProperty("short", (short) 2);
    message.setIntProperty("int", 3);
    message.setLongProperty("long", 4L);
    message.setFloatProperty("float", 0.5f);
    message.setDoubleProperty("double", 0.25);
    message.setBooleanProperty("boolean", true);
    message.setStringProperty("string", "s");
    message.setJMSCorrelationID("corr");
    session.createProducer(queue).send(message, 2, 6, 60_000);
    observer.awaitReady(queue.getQueueName(), 1);
    GetResponse got = observer.take(queue.getQueueName());
    assertEquals("jms.durable.queues", got.getEnvelope().getExchange());
    assertEquals(queue.getQueueName(), got.getEnvelope().getRoutingKey());
    BasicProperties properties = got.getProps();
    assertEquals("application/octet-stream", properties.getContentType());
    assertEquals(2, properties.getDeliveryMode());
    assertEquals(6, properties.getPriority());
    assertEquals("60000", properties.getExpiration());
    assertEquals("corr", properties.getCorrelationId());
    assertNull(properties.getMessageId());
    assertNull(properties.getTimestamp());
    Map<String, Object> expected = new TreeMap<>();
    expected.put("byte", (byte) 1);
    expected.put("short", (short) 2);
    expected.put("int", 3);
    expected.put("long", 4L);
    expected.put("float", 0.5f);
    expected.put("double", 0.25);
    expected.put("boolean", true);
    expected.put("string", "s");
    expected.put("JMSDeliveryMode", "PERSISTENT");
    expected.put("JMSMessageID", message.getJMSMessageID());
    expected.put("JMSTimestamp", message.getJMSTimestamp());
    expected.put("JMSPriority", 6);
    expected.put("JMSCorrelationID", "corr");
    assertEquals(expected, plain(properties.getHeaders()));
  }

  /** Headers with texts as String: the AMQP client has a type of its own for them. */
  private static Map<String, Object> plain(Map<String, Object> headers) {
    Map<String, Object> plain = new TreeMap<>();
    headers.forEach(
        (name, value) ->
            plain.put(name, value instanceof LongString ? value.toString() : value));
    return plain;
  }

  @Tag("M22")
  @Test
  void whatOthersPublishIsReadWithItsProperties() throws Exception {
    RMQDestination destination = destination();
    Map<String, Object> headers = new HashMap<>();
    headers.put("number", 42);
    headers.put("flag", true);
    headers.put("JMSType", "TextMessage");
    headers.put("JMSPriority", 8);
    BasicProperties properties =
        new BasicProperties.Builder()
            .headers(headers)
            .contentType("text/plain")
            .contentEncoding("utf-8")
            .deliveryMode(2)
            .correlationId("corr")
            .messageId("id-1")
            .build();
    observer.publish(destination.getAmqpQueueName(), properties, bytes("hällo"));
    Message received = take(session.createConsumer(destination));
    assertEquals("hällo", assertInstanceOf(TextMessage.class, received).getText());
    assertEquals("42", received.getStringProperty("number")); // the client makes texts of them
    assertEquals("true", received.getStringProperty("flag"));
    assertEquals(8, received.getJMSPriority());
    assertEquals("TextMessage", received.getJMSType());
  }

  @Test
  void aListenerReadsAnAmqpDestination() throws Exception {
    RMQDestination destination = destination();
    Inbox inbox = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(destination));
    for (String body : List.of("1", "2", "3")) {
      observer.publish(destination.getAmqpQueueName(), new BasicProperties(), bytes(body));
    }
    for (String body : List.of("1", "2", "3")) {
      assertArrayEquals(bytes(body), inbox.take().getBody(byte[].class));
    }
  }
}
