package hareline.jms.rabbitmq;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import jakarta.jms.BytesMessage;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * What JMS sends for a reader in Python: {@code tests/interop/java/test_jms.py} looks at the queues
 * after the suite, so these cases leave them behind. Names begin with the property jms.prefix.
 */
class PikaReadsRabbitTest extends RabbitCase {
  private static String name(String what) {
    return System.getProperty("jms.prefix", "jms-") + "rabbitmq-to-pika-" + what;
  }

  /** A destination for raw bodies, whose queue stays; what an earlier run left there goes. */
  private RMQDestination raw(String what) throws Exception {
    observer.delete(name(what));
    observer.declare(name(what), Map.of());
    return new RMQDestination(name(what), "amq.direct", name(what), name(what));
  }

  private static void putProperties(Message message) throws Exception {
    message.setByteProperty("byte", (byte) -7);
    message.setShortProperty("short", (short) -300);
    message.setIntProperty("int", 70_000);
    message.setLongProperty("long", 5_000_000_000L);
    message.setFloatProperty("float", 1.5f);
    message.setDoubleProperty("double", -2.25);
    message.setBooleanProperty("boolean", true);
    message.setStringProperty("string", "grün €");
  }

  @Test
  void aText() throws Exception {
    RMQDestination destination = raw("text");
    RMQConnectionFactory keeping = factory();
    keeping.setKeepTextMessageType(true);
    Session own = open(keeping).createSession(Session.AUTO_ACKNOWLEDGE);
    Message message = own.createTextMessage("hällo €");
    putProperties(message);
    message.setJMSCorrelationID("corr-1");
    own.createProducer(destination).send(message, 2, 7, 3_600_000);
    observer.awaitReady(name("text"), 1);
  }

  @Test
  void octets() throws Exception {
    RMQDestination destination = raw("bytes");
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(new byte[] {0, 1, (byte) 0xce, (byte) 0xff});
    putProperties(message);
    session.createProducer(destination).send(message, 1, 4, 0);
    observer.awaitReady(name("bytes"), 1);
  }

  @Tag("M22")
  @Test
  void aMessageOfTheClientsOwnKind() throws Exception {
    observer.delete(name("own"));
    Queue queue = session.createQueue(name("own"));
    Message message = session.createTextMessage("in the client's own encoding");
    putProperties(message);
    message.setJMSType("kind");
    session.createProducer(queue).send(message);
    observer.awaitReady(name("own"), 1);
  }
}
