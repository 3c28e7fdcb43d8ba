package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Time to live, which is relative on the wire here, and delivery delay. */
class TimeTest extends RabbitCase {
  private static final int PRIORITY = Message.DEFAULT_PRIORITY;

  /**
   * Send "short", which expires after that time, then the texts; when this returns all have been in
   * their queues, as the answer to a commit says.
   */
  private void sendExpiring(Destination destination, long ttlMs, String... texts)
      throws Exception {
    Session own = transacted();
    MessageProducer producer = own.createProducer(destination);
    producer.send(own.createTextMessage("short"), DeliveryMode.PERSISTENT, PRIORITY, ttlMs);
    for (String text : texts) {
      producer.send(own.createTextMessage(text), DeliveryMode.PERSISTENT, PRIORITY, 60_000);
    }
    own.commit();
    own.close();
  }

  @Test
  void anExpiredMessageIsNotDelivered() throws Exception {
    Queue queue = queue();
    sendExpiring(queue, 50, "long", "longer");
    observer.awaitReady(queue.getQueueName(), 2);
    assertEquals(List.of("long", "longer"), drained(queue, 2));
  }

  @Test
  void anExpirationAlreadyOverIsNeverDelivered() throws Exception {
    Queue queue = queue();
    sendExpiring(queue, -1, "next"); // the client makes 0 of it
    observer.awaitReady(queue.getQueueName(), 1);
    assertEquals(List.of("next"), drained(queue, 1));
  }

  @Test
  void aSubscribersMessagesExpireToo() throws Exception {
    Topic topic = topic();
    String name = uniqueName("expiring");
    deleteAtTheEnd(name);
    MessageConsumer consumer = session.createDurableConsumer(topic, name);
    sendExpiring(topic, 30, "next");
    observer.awaitReady(name, 1);
    assertEquals("next", takeText(consumer));
    assertNothing(consumer);
  }

  @Test
  void theLongestTimeToLiveIsKept() throws Exception {
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    long hundredYearsMs = TimeUnit.DAYS.toMillis(36_500); // the client sends 4294967295 instead
    producer.setTimeToLive(hundredYearsMs);
    producer.send(session.createTextMessage("kept"));
    Message received = take(session.createConsumer(queue));
    assertEquals("kept", text(received));
    assertTrue(received.getJMSExpiration() > System.currentTimeMillis() + hundredYearsMs / 2);
  }

  @Tag("S9")
  @Test
  void aDelayedMessageComesAfterItsDelay() throws Exception {
    onlyHareline();
    Queue queue = queue();
    MessageConsumer consumer = session.createConsumer(queue);
    MessageProducer producer = session.createProducer(queue);
    producer.setDeliveryDelay(400);
    Session other = session(Session.AUTO_ACKNOWLEDGE);
    long sent = System.nanoTime();
    producer.send(session.createTextMessage("delayed"));
    send(other, queue, "at once");
    assertEquals("at once", takeText(consumer));
    Message delayed = take(consumer);
    long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sent);
    assertEquals("delayed", text(delayed));
    assertTrue(tookMs >= 400, () -> "it came after " + tookMs + " ms");
    assertTrue(tookMs < PATIENCE_MS, () -> "it came after " + tookMs + " ms");
  }

  @Tag("S9")
  @Test
  void delayedMessagesComeInTheOrderOfTheirDelays() throws Exception {
    onlyHareline();
    Queue queue = queue();
    Inbox inbox = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    MessageProducer producer = session.createProducer(queue);
    for (int delayMs : new int[] {600, 200, 400}) {
      producer.setDeliveryDelay(delayMs);
      producer.send(session.createTextMessage("after " + delayMs));
    }
    assertEquals(List.of("after 200", "after 400", "after 600"), inbox.takeTexts(3));
  }

  @Tag("S9")
  @Test
  void aDelayedMessageToATopicReachesItsSubscribers() throws Exception {
    onlyHareline();
    Topic topic = topic();
    Topic other = topic();
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer two = session.createConsumer(topic, "n = 2");
    MessageConsumer none = session.createConsumer(other);
    MessageProducer producer = session.createProducer(topic);
    producer.setDeliveryDelay(150);
    for (int i = 1; i < 3; i++) {
      Message message = session.createTextMessage("n is " + i);
      message.setIntProperty("n", i);
      producer.send(message);
    }
    assertEquals(List.of("n is 1", "n is 2"), takeTexts(one, 2));
    assertEquals("n is 2", takeText(two));
    assertNothing(none);
    assertNothing(two);
  }

  @Tag("S9")
  @Test
  void aDelayStartsAtCommit() throws Exception {
    onlyHareline();
    Queue queue = queue();
    Session own = transacted();
    MessageProducer producer = own.createProducer(queue);
    producer.setDeliveryDelay(100);
    producer.send(own.createTextMessage("rolled back"));
    own.rollback();
    producer.send(own.createTextMessage("committed"));
    own.commit();
    assertEquals(List.of("committed"), drained(queue, 1));
  }

  @Tag("S9")
  @Test
  void aDelayedMessageMayLiveLong() throws Exception {
    onlyHareline();
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    producer.setDeliveryDelay(100);
    producer.setTimeToLive(60_000);
    Message message = session.createTextMessage("both");
    message.setStringProperty("kept", "as it was");
    producer.send(message);
    Message received = take(session.createConsumer(queue));
    assertEquals("both", text(received));
    assertEquals("as it was", received.getStringProperty("kept"));
    assertTrue(received.getJMSDeliveryTime() > 0);
  }
}
