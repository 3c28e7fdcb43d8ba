package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.rabbitmq.jms.admin.RMQDestination;
import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What a writer in Python published before the suite: {@code tests/interop/java/jms_pika_rabbitmq.py}.
 *
 * <p>Run by hand, where no one has written, these skip.
 */
class PikaWritesRabbitTest extends RabbitCase {
  private static final String PREFIX = System.getProperty("jms.prefix", "");

  @BeforeEach
  void needAWriter() throws Exception {
    boolean byHand = PREFIX.isEmpty() || PREFIX.equals("jms-");
    assumeTrue(!byHand || observer.exists(name("text")), "nobody wrote: run by test_jms.py");
  }

  private static String name(String what) {
    return PREFIX + "pika-to-rabbitmq-" + what;
  }

  private MessageConsumer reader(String what) throws Exception {
    return session.createConsumer(new RMQDestination(name(what), null, null, name(what)));
  }

  /** The client gives properties of foreign messages as texts, whatever their types were. */
  private static void assertProperties(Message message) throws Exception {
    assertEquals("-70000", message.getStringProperty("int"));
    assertEquals(-70_000, message.getIntProperty("int"));
    assertEquals(5_000_000_000L, message.getLongProperty("long"));
    assertEquals(2.5, message.getDoubleProperty("decimal"));
    assertTrue(message.getBooleanProperty("boolean"));
    assertEquals("grün €", message.getStringProperty("string"));
  }

  @Test
  void aText() throws Exception {
    Message message = take(reader("text"));
    assertEquals("hällo €", assertInstanceOf(TextMessage.class, message).getText());
    assertProperties(message);
    assertEquals("corr-1", message.getJMSCorrelationID());
    assertEquals(DeliveryMode.PERSISTENT, message.getJMSDeliveryMode());
    assertEquals(7, message.getJMSPriority());
    assertEquals("id-1", message.getJMSMessageID());
    assertEquals("TextMessage", message.getJMSType());
  }

  @Test
  void octets() throws Exception {
    Message message = take(reader("bytes"));
    assertArrayEquals(
        new byte[] {0, 1, (byte) 0xce, (byte) 0xff},
        assertInstanceOf(BytesMessage.class, message).getBody(byte[].class));
    assertProperties(message);
  }

  @Test
  void manyInTheirOrder() throws Exception {
    MessageConsumer reader = reader("many");
    for (int i = 0; i < 50; i++) {
      byte[] body = take(reader).getBody(byte[].class);
      assertEquals("number " + i, new String(body, StandardCharsets.UTF_8));
    }
    assertNothing(reader);
  }

  @Test
  void aSelectorOfJmsJudgesWhatPikaPublished() throws Exception {
    // The writer bound the queue by a term of its own: only what it selects may be here.
    onlyHareline();
    MessageConsumer reader = reader("selected");
    Message message = take(reader);
    assertEquals("chosen", new String(message.getBody(byte[].class), StandardCharsets.UTF_8));
    assertNothing(reader);
  }
}
