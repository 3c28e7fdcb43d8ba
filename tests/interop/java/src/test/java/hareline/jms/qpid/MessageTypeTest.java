package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.GetResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What is in a message: bodies of every type, every type of property, headers, sizes, gzip. */
class MessageTypeTest extends QpidCase {

  private <M extends Message> M through(Session session, M message, Class<M> type)
      throws Exception {
    Queue queue = queue(session, name("types"));
    session.createProducer(queue).send(message);
    MessageConsumer consumer = session.createConsumer(queue);
    Message received = receive(consumer);
    consumer.close();
    return type.cast(received);
  }

  @Test
  void textMessages() throws Exception {
    Session session = autoSession(connect());
    for (String text : new String[] {"plain", "", "\u00e4\u20ac \ud83d\udc07 \u0000 end", null}) {
      TextMessage received = through(session, session.createTextMessage(text), TextMessage.class);
      assertEquals(text, received.getText());
    }
  }

  @Test
  void bytesMessages() throws Exception {
    Session session = autoSession(connect());
    BytesMessage message = session.createBytesMessage();
    message.writeBoolean(true);
    message.writeByte((byte) -1);
    message.writeShort((short) -2);
    message.writeChar('\u20ac');
    message.writeInt(-3);
    message.writeLong(Long.MIN_VALUE);
    message.writeFloat(1.5f);
    message.writeDouble(-2.25);
    message.writeUTF("\u00e4");
    message.writeBytes(new byte[] {0, (byte) 0xCE, (byte) 0xFF});
    BytesMessage received = through(session, message, BytesMessage.class);
    assertTrue(received.readBoolean());
    assertEquals(-1, received.readByte());
    assertEquals(-2, received.readShort());
    assertEquals('\u20ac', received.readChar());
    assertEquals(-3, received.readInt());
    assertEquals(Long.MIN_VALUE, received.readLong());
    assertEquals(1.5f, received.readFloat());
    assertEquals(-2.25, received.readDouble());
    assertEquals("\u00e4", received.readUTF());
    byte[] rest = new byte[8];
    assertEquals(3, received.readBytes(rest));
    assertArrayEquals(new byte[] {0, (byte) 0xCE, (byte) 0xFF}, Arrays.copyOf(rest, 3));
  }

  @Test
  void mapMessagesInBothFormats() throws Exception {
    for (boolean isLegacy : new boolean[] {false, true}) {
      Session session = autoSession(connect(url().option("use_legacy_map_msg_format", isLegacy)));
      MapMessage message = session.createMapMessage();
      message.setString("text", "\u00e4");
      message.setInt("int", 7);
      message.setLong("long", 5_000_000_000L);
      message.setDouble("double", 2.5);
      message.setBoolean("boolean", true);
      message.setBytes("bytes", new byte[] {1, 2});
      message.setObject("nothing", null);
      MapMessage received = through(session, message, MapMessage.class);
      assertEquals("\u00e4", received.getString("text"));
      assertEquals(7, received.getInt("int"));
      assertEquals(5_000_000_000L, received.getLong("long"));
      assertEquals(2.5, received.getDouble("double"));
      assertTrue(received.getBoolean("boolean"));
      assertArrayEquals(new byte[] {1, 2}, received.getBytes("bytes"));
      assertTrue(received.itemExists("nothing"));
      assertNull(received.getObject("nothing"));
    }
  }

  @Test
  void streamMessages() throws Exception {
    Session session = autoSession(connect());
    StreamMessage message = session.createStreamMessage();
    message.writeString("one");
    message.writeInt(2);
    message.writeDouble(3.5);
    message.writeBoolean(false);
    message.writeBytes(new byte[] {4});
    StreamMessage received = through(session, message, StreamMessage.class);
    assertEquals("one", received.readString());
    assertEquals(2, received.readInt());
    assertEquals(3.5, received.readDouble());
    assertFalse(received.readBoolean());
    byte[] bytes = new byte[4];
    assertEquals(1, received.readBytes(bytes));
    assertEquals(4, bytes[0]);
  }

  @Test
  void objectMessages() throws Exception {
    Session session = autoSession(connect());
    ArrayList<String> value = new ArrayList<>(List.of("a", "\u00e4"));
    ObjectMessage received =
        through(session, session.createObjectMessage(value), ObjectMessage.class);
    assertEquals(value, received.getObject());
  }

  @Tag("M22")
  @Test
  void everyTypeOfPropertyComesAsItWas() throws Exception {
    Session session = transacted(connect());
    Queue queue = queue(session, name("properties"));
    TextMessage message = session.createTextMessage("x");
    message.setBooleanProperty("boolean", true);
    message.setByteProperty("byte", (byte) -7);
    message.setShortProperty("short", (short) -300);
    message.setIntProperty("int", Integer.MIN_VALUE);
    message.setLongProperty("long", Long.MAX_VALUE);
    message.setFloatProperty("float", 1.5f);
    message.setDoubleProperty("double", -2.25);
    message.setStringProperty("text", "\u00e4\u20ac");
    message.setJMSType("kind");
    message.setJMSCorrelationID("corr \u00e4");
    message.setJMSReplyTo(queue);
    session.createProducer(queue).send(message, DeliveryMode.NON_PERSISTENT, 7, 0);
    session.commit();

    MessageConsumer consumer = session.createConsumer(queue);
    receive(consumer);
    session.rollback();
    Message received = receive(consumer);
    assertTrue(received.getJMSRedelivered());
    assertEquals(Boolean.TRUE, received.getObjectProperty("boolean"));
    assertEquals((byte) -7, received.getObjectProperty("byte"));
    assertEquals((short) -300, received.getObjectProperty("short"));
    assertEquals(Integer.MIN_VALUE, received.getObjectProperty("int"));
    assertEquals(Long.MAX_VALUE, received.getObjectProperty("long"));
    assertEquals(1.5f, received.getObjectProperty("float"));
    assertEquals(-2.25, received.getObjectProperty("double"));
    assertEquals("\u00e4\u20ac", received.getObjectProperty("text"));
    assertEquals("kind", received.getJMSType());
    assertEquals("corr \u00e4", received.getJMSCorrelationID());
    assertEquals(DeliveryMode.NON_PERSISTENT, received.getJMSDeliveryMode());
    assertEquals(7, received.getJMSPriority());
    assertEquals(message.getJMSMessageID(), received.getJMSMessageID());
    assertEquals(message.getJMSTimestamp(), received.getJMSTimestamp());
    assertEquals(broker.username, received.getStringProperty("JMSXUserID"));
    session.commit();
  }

  @Tag("M22")
  @Test
  void theDestinationIsRebuiltFromExchangeAndKey() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = autoSession(connect());
      String name = name("destination");
      observer.declare(name, java.util.Map.of());
      Queue queue = session.createQueue(syntax.queue(name));
      MessageConsumer consumer = session.createConsumer(queue);
      send(session, queue, "there");
      Message received = receive(consumer);
      send(session, received.getJMSDestination(), "and back");
      assertEquals("and back", receiveText(consumer), "" + syntax);
    }
  }

  @Test
  void largeMessagesComeWhole() throws Exception {
    Session session = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("large"));
    MessageProducer producer = session.createProducer(queue);
    MessageConsumer consumer = session.createConsumer(queue);
    // Around a frame of 128 KiB, and many frames.
    for (int size : new int[] {131_063, 131_064, 131_065, 1 << 20, (5 << 20) + 7}) {
      byte[] body = new byte[size];
      new Random(size).nextBytes(body);
      BytesMessage message = session.createBytesMessage();
      message.writeBytes(body);
      producer.send(message);
      BytesMessage received = (BytesMessage) receive(consumer);
      assertEquals(size, received.getBodyLength());
      byte[] back = new byte[size];
      received.readBytes(back);
      assertArrayEquals(body, back);
      received.acknowledge();
    }
  }

  @Test
  void compressedMessagesComeWhole() throws Exception {
    Connection compressing =
        connect(
            url().option("compressMessages", true).option("messageCompressionThresholdSize", 1000));
    Session session = autoSession(compressing);
    String name = name("gzip");
    Queue queue = queue(session, name);
    String text = "hare ".repeat(50_000);
    send(session, queue, text, text);
    observer.awaitReady(name, 2);
    assertEquals(text, receiveText(autoSession(connect()).createConsumer(queue)));
  }

  @Test
  void compressedMessagesTravelCompressed() throws Exception {
    onlyHareline(); // Broker-J unpacks them for clients that have not asked for compression.
    Connection compressing =
        connect(
            url().option("compressMessages", true).option("messageCompressionThresholdSize", 1000));
    Session session = autoSession(compressing);
    String name = name("gzip-wire");
    Queue queue = queue(session, name);
    String text = "hare ".repeat(50_000);
    send(session, queue, text, "short");
    observer.awaitReady(name, 2);
    GetResponse compressed = observer.take(name);
    assertEquals("gzip", compressed.getProps().getContentEncoding());
    assertTrue(compressed.getBody().length < text.length() / 10, "it is compressed");
    GetResponse plain = observer.take(name);
    assertNull(plain.getProps().getContentEncoding());
    assertEquals("short", new String(plain.getBody(), StandardCharsets.UTF_8));
  }
}
