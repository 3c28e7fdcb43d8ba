package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.GetResponse;
import hareline.jms.Patience;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Time to live, which this client sends as an instant: milliseconds since 1970. */
class TimeToLiveTest extends QpidCase {

  private static Message sendFor(Session session, Queue queue, String text, long ttlMs)
      throws Exception {
    MessageProducer producer = session.createProducer(queue);
    Message message = session.createTextMessage(text);
    producer.send(message, DeliveryMode.PERSISTENT, Message.DEFAULT_PRIORITY, ttlMs);
    producer.close();
    return message;
  }

  private static void awaitExpirationOf(Message sent) throws Exception {
    long instant = sent.getJMSExpiration();
    Patience.until(() -> System.currentTimeMillis() > instant, "the clock has passed " + instant);
  }

  @Tag("M12")
  @Test
  void anExpiredMessageIsNotDelivered() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("ttl"));
    Message expires = sendFor(session, queue, "expires", 30);
    sendFor(session, queue, "stays", 60_000);
    awaitExpirationOf(expires);
    assertEquals("stays", receiveText(session.createConsumer(queue)));
  }

  @Tag("M12")
  @Test
  void expirationComesAsItWasSent() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("ttl-text"));
    Message sent = sendFor(session, queue, "x", 60_000);
    Message received = receive(session.createConsumer(queue));
    assertEquals(sent.getJMSExpiration(), received.getJMSExpiration());
    long remaining = received.getJMSExpiration() - received.getJMSTimestamp();
    assertTrue(Math.abs(remaining - 60_000) < 5, "from its time stamp: " + remaining);
  }

  @Tag("M12")
  @Test
  void aYearIsNotTooLongAndNoTimeIsForEver() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("ttl-long"));
    sendFor(session, queue, "a year", 365L * 24 * 3600 * 1000);
    sendFor(session, queue, "twenty years", 20 * 365L * 24 * 3600 * 1000);
    sendFor(session, queue, "for ever", 0);
    awaitExpirationOf(sendFor(session, queue, "expires", 20));
    sendFor(session, queue, "last", 0);
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals(List.of("a year", "twenty years", "for ever", "last"), receiveTexts(consumer, 4));
  }

  @Tag("M12")
  @Test
  void manyExpireAtTheirOwnTimes() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("ttl-many"));
    Message latest = null;
    List<String> staying = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      boolean expires = i % 2 == 0;
      Message sent = sendFor(session, queue, "" + i, expires ? 60 - i : 60_000);
      if (expires && (latest == null || sent.getJMSExpiration() > latest.getJMSExpiration())) {
        latest = sent;
      }
      if (!expires) {
        staying.add("" + i);
      }
    }
    awaitExpirationOf(latest);
    assertEquals(staying, receiveTexts(session.createConsumer(queue), 25));
  }

  @Tag("S11")
  @Test
  void theTimeGoesOnWhileAMessageIsRedelivered() throws Exception {
    Session session = transacted(connect());
    Queue queue = queue(session, name("ttl-requeue"));
    Message sent = sendFor(session, queue, "x", 1_500);
    session.commit();
    MessageConsumer consumer = session.createConsumer(queue);
    Message received = receive(consumer);
    assertEquals(sent.getJMSExpiration(), received.getJMSExpiration());
    session.rollback();
    awaitExpirationOf(sent);
    send(session, queue, "after");
    session.commit();
    // It may have been with this consumer again before its time was over.
    String next = receiveText(consumer);
    assertEquals("after", next.equals("x") ? receiveText(consumer) : next);
    session.rollback();
    consumer.close();
    session.rollback();
    assertEquals("after", receiveText(autoSession(connect()).createConsumer(queue)));
  }

  @Tag("S11")
  @Test
  void aDeadLetterKeepsItsTextAndDoesNotExpireAgain() throws Exception {
    onlyHareline();
    Session session = autoSession(connect());
    String dead = name("ttl-dead");
    Queue deadLetters = queue(session, dead);
    String name = name("ttl-source");
    Queue queue =
        queue(
            session,
            name,
            Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
    sendFor(session, queue, "x", 30);
    observer.awaitReady(dead, 1);
    Message letter = receive(session.createConsumer(deadLetters));
    assertEquals("x", text(letter));
    assertEquals(0, letter.getJMSExpiration());
    assertEquals(0, observer.ready(name));
  }

  @Tag("S11")
  @Test
  void theDeathSaysWhatTheExpirationWas() throws Exception {
    onlyHareline();
    Session session = autoSession(connect());
    String dead = name("ttl-history");
    queue(session, dead);
    Queue queue =
        queue(
            session,
            name("ttl-history-source"),
            Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
    Message sent = sendFor(session, queue, "x", 30);
    observer.awaitReady(dead, 1);
    GetResponse letter = observer.take(dead);
    List<?> deaths = (List<?>) letter.getProps().getHeaders().get("x-death");
    Map<?, ?> death = (Map<?, ?>) deaths.get(0);
    assertEquals("expired", death.get("reason").toString());
    assertEquals("" + sent.getJMSExpiration(), death.get("original-expiration").toString());
  }
}
