package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Every kind of message, every type of property, and the headers of JMS, from end to end. */
class MessageTest extends RabbitCase {
  private Message sent(Message message) throws Exception {
    Queue queue = queue();
    session.createProducer(queue).send(message);
    return take(session.createConsumer(queue));
  }

  @Test
  void textMessages() throws Exception {
    for (String text : List.of("plain", "", "grün € 😀", "line\nline\0end")) {
      assertEquals(text, ((TextMessage) sent(session.createTextMessage(text))).getText());
    }
    assertNull(((TextMessage) sent(session.createTextMessage())).getText());
  }

  @Test
  void bytesMessages() throws Exception {
    BytesMessage message = session.createBytesMessage();
    message.writeBoolean(true);
    message.writeByte((byte) -1);
    message.writeChar('€');
    message.writeDouble(Math.PI);
    message.writeFloat(1.5f);
    message.writeInt(Integer.MIN_VALUE);
    message.writeLong(Long.MAX_VALUE);
    message.writeShort((short) -2);
    message.writeUTF("grün");
    message.writeBytes(new byte[] {0, 1, (byte) 0xce});
    BytesMessage received = (BytesMessage) sent(message);
    assertTrue(received.readBoolean());
    assertEquals(-1, received.readByte());
    assertEquals('€', received.readChar());
    assertEquals(Math.PI, received.readDouble());
    assertEquals(1.5f, received.readFloat());
    assertEquals(Integer.MIN_VALUE, received.readInt());
    assertEquals(Long.MAX_VALUE, received.readLong());
    assertEquals(-2, received.readShort());
    assertEquals("grün", received.readUTF());
    byte[] rest = new byte[3];
    assertEquals(3, received.readBytes(rest));
    assertArrayEquals(new byte[] {0, 1, (byte) 0xce}, rest);
  }

  @Test
  void mapMessages() throws Exception {
    MapMessage message = session.createMapMessage();
    message.setBoolean("boolean", true);
    message.setByte("byte", (byte) 1);
    message.setBytes("bytes", new byte[] {2, 3});
    message.setChar("char", 'c');
    message.setDouble("double", 0.25);
    message.setFloat("float", 0.5f);
    message.setInt("int", 4);
    message.setLong("long", 5L);
    message.setShort("short", (short) 6);
    message.setString("string", "grün");
    MapMessage received = (MapMessage) sent(message);
    assertTrue(received.getBoolean("boolean"));
    assertEquals(1, received.getByte("byte"));
    assertArrayEquals(new byte[] {2, 3}, received.getBytes("bytes"));
    assertEquals('c', received.getChar("char"));
    assertEquals(0.25, received.getDouble("double"));
    assertEquals(0.5f, received.getFloat("float"));
    assertEquals(4, received.getInt("int"));
    assertEquals(5L, received.getLong("long"));
    assertEquals(6, received.getShort("short"));
    assertEquals("grün", received.getString("string"));
  }

  @Test
  void streamMessages() throws Exception {
    StreamMessage message = session.createStreamMessage();
    message.writeInt(1);
    message.writeString("two");
    message.writeDouble(3.5);
    message.writeBoolean(false);
    StreamMessage received = (StreamMessage) sent(message);
    assertEquals(1, received.readInt());
    assertEquals("two", received.readString());
    assertEquals(3.5, received.readDouble());
    assertFalse(received.readBoolean());
  }

  @Test
  void objectMessages() throws Exception {
    ArrayList<String> body = new ArrayList<>(List.of("a", "b"));
    assertEquals(body, ((ObjectMessage) sent(session.createObjectMessage(body))).getObject());
  }

  @Test
  void messagesWithoutABody() throws Exception {
    Message message = session.createMessage();
    message.setStringProperty("only", "a property");
    assertEquals("a property", sent(message).getStringProperty("only"));
  }

  @Tag("M22")
  @Test
  void propertiesKeepTheirTypes() throws Exception {
    Message message = session.createTextMessage("x");
    Map<String, Object> properties =
        Map.of(
            "boolean", true,
            "byte", (byte) -7,
            "short", (short) -300,
            "int", Integer.MAX_VALUE,
            "long", Long.MIN_VALUE,
            "float", 1.5f,
            "double", -2.25,
            "string", "grün",
            "dotted.name", "d",
            "empty", "");
    for (Map.Entry<String, Object> each : properties.entrySet()) {
      message.setObjectProperty(each.getKey(), each.getValue());
    }
    Message received = sent(message);
    for (Map.Entry<String, Object> each : properties.entrySet()) {
      assertEquals(each.getValue(), received.getObjectProperty(each.getKey()), each.getKey());
    }
    TreeSet<String> names = new TreeSet<>();
    Enumeration<?> found = received.getPropertyNames();
    while (found.hasMoreElements()) {
      names.add(found.nextElement().toString());
    }
    TreeSet<String> expected = new TreeSet<>(properties.keySet());
    expected.add("JMSXDeliveryCount");
    assertEquals(expected, names);
  }

  @Test
  void theHeadersOfJmsArrive() throws Exception {
    Queue queue = queue();
    Queue replies = queue();
    MessageProducer producer = session.createProducer(queue);
    Message message = session.createTextMessage("x");
    message.setJMSCorrelationID("corr");
    message.setJMSType("kind");
    message.setJMSReplyTo(replies);
    long before = System.currentTimeMillis();
    producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 60_000);
    Message received = take(session.createConsumer(queue));
    long after = System.currentTimeMillis();
    assertEquals(message.getJMSMessageID(), received.getJMSMessageID());
    assertTrue(received.getJMSMessageID().startsWith("ID:"));
    assertEquals("corr", received.getJMSCorrelationID());
    assertEquals("kind", received.getJMSType());
    assertEquals(replies, received.getJMSReplyTo());
    assertEquals(queue, received.getJMSDestination());
    assertEquals(DeliveryMode.NON_PERSISTENT, received.getJMSDeliveryMode());
    assertEquals(7, received.getJMSPriority());
    assertTrue(received.getJMSTimestamp() >= before && received.getJMSTimestamp() <= after);
    assertEquals(received.getJMSTimestamp() + 60_000, received.getJMSExpiration());
    assertFalse(received.getJMSRedelivered());
    assertEquals(1, received.getIntProperty("JMSXDeliveryCount"));
  }

  @Test
  void largeMessages() throws Exception {
    byte[] body = new byte[3 * 1024 * 1024 + 17];
    new Random(1).nextBytes(body);
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(body);
    BytesMessage received = (BytesMessage) sent(message);
    assertEquals(body.length, received.getBodyLength());
    byte[] copy = new byte[body.length];
    received.readBytes(copy);
    assertArrayEquals(body, copy);
  }

  @Tag("S9")
  @Test
  void theDeliveryCountGoesUp() throws Exception {
    Queue queue = queue(Map.of("x-queue-type", "quorum", "x-delivery-limit", 10));
    fill(queue, "1");
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    List<Integer> counts = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      counts.add(take(consumer).getIntProperty("JMSXDeliveryCount"));
      own.recover();
    }
    assertEquals(List.of(1, 2, 3, 4), counts);
  }
}
