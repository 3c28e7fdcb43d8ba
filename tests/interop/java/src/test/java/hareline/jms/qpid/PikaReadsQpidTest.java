package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What a Python program reads with pika when the suite has ended; see jms_pika_qpid.py. */
class PikaReadsQpidTest extends QpidCase {
  private final String prefix = System.getProperty("jms.prefix");

  private void leave(String kind, Session session, Message message) throws Exception {
    String name = prefix + kind;
    observer.declare(name, Map.of());
    Queue queue = session.createQueue(name);
    session.createProducer(queue).send(message, DeliveryMode.PERSISTENT, 7, 3_600_000);
    observer.awaitReady(name, 1);
    assertEquals(1, observer.ready(name), "it stays for pika");
  }

  @Tag("M22")
  @Test
  void leaveTextWithEveryTypeOfPropertyForPika() throws Exception {
    Session session = autoSession(connect());
    TextMessage message = session.createTextMessage("h\u00e4re \u20ac");
    message.setBooleanProperty("boolean", true);
    message.setByteProperty("byte", (byte) -7);
    message.setShortProperty("short", (short) -300);
    message.setIntProperty("int", 70_000);
    message.setLongProperty("long", 5_000_000_000L);
    message.setFloatProperty("float", 1.5f);
    message.setDoubleProperty("double", -2.25);
    message.setStringProperty("text", "t\u00e4xt");
    message.setJMSType("kind");
    message.setJMSCorrelationID("corr-1");
    leave("qpid-to-pika-text", session, message);
  }

  @Tag("M22")
  @Test
  void leaveBytesForPika() throws Exception {
    Session session = autoSession(connect());
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(new byte[] {0, 1, (byte) 0xCE, (byte) 0xFF});
    leave("qpid-to-pika-bytes", session, message);
  }

  @Tag("M22")
  @Test
  void leaveAMapForPika() throws Exception {
    Session session = autoSession(connect());
    MapMessage message = session.createMapMessage();
    message.setString("key", "value");
    leave("qpid-to-pika-map", session, message);
  }
}
