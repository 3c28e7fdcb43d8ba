package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.charset.StandardCharsets;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What a Python program has written with pika before the suite began; see jms_pika_qpid.py. */
class PikaWritesQpidTest extends QpidCase {
  private final String prefix = System.getProperty("jms.prefix");
  private Session session;

  @BeforeEach
  void find() throws Exception {
    assumeFalse(prefix.equals("jms-"), "-Djms.prefix names no run, so pika has written nothing");
    session = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
  }

  private Message from(String kind) throws Exception {
    MessageConsumer consumer = session.createConsumer(session.createQueue(prefix + kind));
    return receive(consumer);
  }

  @Tag("M22")
  @Test
  void textOfPikaIsATextMessage() throws Exception {
    TextMessage message = (TextMessage) from("pika-to-qpid-text");
    assertEquals("h\u00e4re \u20ac", message.getText());
    assertEquals("corr-1", message.getJMSCorrelationID());
    assertEquals("kind", message.getJMSType());
    assertEquals(7, message.getJMSPriority());
    assertEquals(DeliveryMode.PERSISTENT, message.getJMSDeliveryMode());
    assertEquals("ID:pika-1", message.getJMSMessageID());
  }

  @Tag("M22")
  @Test
  void headersOfPikaAreProperties() throws Exception {
    Message message = from("pika-to-qpid-headers");
    assertEquals(Boolean.TRUE, message.getObjectProperty("boolean"));
    assertEquals(70_000, message.getObjectProperty("int"));
    assertEquals(5_000_000_000L, message.getObjectProperty("long"));
    assertEquals("text", message.getObjectProperty("text"));
    assertTrue(message.propertyExists("nothing"));
    assertNull(message.getObjectProperty("nothing"));
    assertEquals("g", message.getStringProperty("JMSXGroupID"));
  }

  @Tag("M22")
  @Test
  void bytesOfPikaAreABytesMessage() throws Exception {
    BytesMessage message = assertInstanceOf(BytesMessage.class, from("pika-to-qpid-bytes"));
    byte[] body = new byte[(int) message.getBodyLength()];
    message.readBytes(body);
    assertArrayEquals(new byte[] {0, 1, (byte) 0xCE, (byte) 0xFF}, body);
  }

  @Tag("M10")
  @Test
  void messagesOfPikaAreSelectedByTheirHeaders() throws Exception {
    MessageConsumer consumer =
        session.createConsumer(
            session.createQueue(prefix + "pika-to-qpid-select"), "n >= 2 AND colour = 'red'");
    Message message = receive(consumer);
    assertEquals("3", text(message));
  }

  @Tag("M12")
  @Test
  void aRelativeExpirationOfPikaIsRead() throws Exception {
    // RabbitMQ's way: milliseconds from when the message was published.
    BytesMessage message = (BytesMessage) from("pika-to-qpid-ttl");
    byte[] body = new byte[(int) message.getBodyLength()];
    message.readBytes(body);
    assertEquals("ttl", new String(body, StandardCharsets.UTF_8));
    assertEquals(86_400_000, message.getJMSExpiration());
  }
}
