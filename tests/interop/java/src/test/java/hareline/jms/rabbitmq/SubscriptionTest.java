package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Topics: subscriptions that are durable, shared, both, or neither. */
class SubscriptionTest extends RabbitCase {
  @Test
  void everySubscriberGetsEachMessage() throws Exception {
    Topic topic = topic();
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer two = session(Session.AUTO_ACKNOWLEDGE).createConsumer(topic);
    MessageConsumer other = open().createSession(Session.AUTO_ACKNOWLEDGE).createConsumer(topic);
    send(topic, "1", "2");
    for (MessageConsumer each : List.of(one, two, other)) {
      assertEquals(List.of("1", "2"), takeTexts(each, 2));
    }
  }

  @Test
  void aListenerSubscribes() throws Exception {
    Topic topic = topic();
    Inbox inbox = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(topic));
    send(topic, numbers(0, 20));
    assertEquals(List.of(numbers(0, 20)), inbox.takeTexts(20));
  }

  @Test
  void topicsHavePatterns() throws Exception {
    String root = uniqueName("root");
    MessageConsumer all = session.createConsumer(session.createTopic(root + ".#"));
    MessageConsumer one = session.createConsumer(session.createTopic(root + ".*.last"));
    send(session.createTopic(root + ".a.last"), "both");
    send(session.createTopic(root + ".a"), "all");
    send(session.createTopic(root), "all too");
    assertEquals(List.of("both", "all", "all too"), takeTexts(all, 3));
    assertEquals("both", takeText(one));
    assertNothing(one);
  }

  @Test
  void aDurableSubscriptionKeepsWhatComesWhileNobodyListens() throws Exception {
    Topic topic = topic();
    String name = uniqueName("durable");
    deleteAtTheEnd(name);
    Connection first = open();
    first.createSession(Session.AUTO_ACKNOWLEDGE).createDurableSubscriber(topic, name);
    first.close();
    send(topic, "1", "2");
    Connection second = open();
    Session own = second.createSession(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = own.createDurableSubscriber(topic, name);
    Message one = take(consumer);
    assertEquals("1", text(one));
    one.acknowledge();
    assertEquals("2", takeText(consumer));
    second.close();
    MessageConsumer third =
        open().createSession(Session.AUTO_ACKNOWLEDGE).createDurableConsumer(topic, name);
    Message two = take(third);
    assertEquals("2", text(two));
    assertTrue(two.getJMSRedelivered());
    assertNothing(third);
  }

  @Test
  void unsubscribeEndsADurableSubscription() throws Exception {
    Topic topic = topic();
    String name = uniqueName("durable");
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    own.createDurableConsumer(topic, name).close();
    assertTrue(observer.exists(name));
    own.unsubscribe(name);
    assertFalse(observer.exists(name));
    send(topic, "missed");
    deleteAtTheEnd(name);
    MessageConsumer again = own.createDurableConsumer(topic, name);
    send(topic, "got");
    assertEquals("got", takeText(again));
    assertNothing(again);
  }

  @Test
  void aDurableSubscriptionMayMoveToAnotherTopic() throws Exception {
    Topic before = topic();
    Topic after = topic();
    String name = uniqueName("durable");
    deleteAtTheEnd(name);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    own.createDurableConsumer(before, name).close();
    MessageConsumer moved = own.createDurableConsumer(after, name);
    send(before, "before");
    send(after, "after");
    assertEquals("after", takeText(moved));
    assertNothing(moved);
  }

  @Test
  void aDurableSubscriptionHasOneConsumer() throws Exception {
    Topic topic = topic();
    String name = uniqueName("durable");
    deleteAtTheEnd(name);
    session.createDurableConsumer(topic, name);
    assertThrows(JMSException.class, () -> session.createDurableConsumer(topic, name));
  }

  @Test
  void aSharedDurableSubscriptionDividesItsMessages() throws Exception {
    Topic topic = topic();
    String name = uniqueName("shared-durable");
    deleteAtTheEnd(name);
    Connection one = open();
    Connection two = open();
    Inbox ofOne =
        new Inbox(
            one.createSession(Session.AUTO_ACKNOWLEDGE).createSharedDurableConsumer(topic, name));
    Inbox ofTwo =
        new Inbox(
            two.createSession(Session.AUTO_ACKNOWLEDGE).createSharedDurableConsumer(topic, name));
    send(topic, numbers(0, 20));
    TreeSet<String> all = new TreeSet<>(ofOne.takeTexts(10));
    all.addAll(ofTwo.takeTexts(10));
    assertEquals(new TreeSet<>(List.of(numbers(0, 20))), all);
    one.close();
    two.close();
    send(topic, "kept");
    MessageConsumer later =
        open().createSession(Session.AUTO_ACKNOWLEDGE).createSharedDurableConsumer(topic, name);
    assertEquals("kept", takeText(later));
    assertNothing(later);
  }

  @Test
  void aSharedSubscriptionDividesItsMessages() throws Exception {
    Topic topic = topic();
    String name = uniqueName("shared");
    MessageConsumer one = session.createSharedConsumer(topic, name);
    MessageConsumer two = session.createSharedConsumer(topic, name);
    MessageConsumer alone = session.createConsumer(topic);
    send(topic, "1", "2", "3");
    assertEquals("1", takeText(one));
    assertEquals("2", takeText(two));
    assertEquals("3", takeText(one));
    assertNothing(two);
    assertEquals(List.of("1", "2", "3"), takeTexts(alone, 3));
  }

  @Test
  void aSharedSubscriptionKeepsItsTopic() throws Exception {
    Topic topic = topic();
    Topic other = topic();
    String name = uniqueName("shared");
    session.createSharedConsumer(topic, name);
    assertThrows(JMSRuntimeException.class, () -> session.createSharedConsumer(other, name));
  }

  @Test
  void aSubscriptionThatIsNotDurableEndsWithItsConnection() throws Exception {
    Topic topic = topic();
    Connection first = open();
    MessageConsumer consumer =
        first.createSession(Session.AUTO_ACKNOWLEDGE).createConsumer(topic);
    send(topic, "1");
    assertEquals("1", takeText(consumer));
    first.close();
    send(topic, "missed");
    MessageConsumer again = session.createConsumer(topic);
    send(topic, "2");
    assertEquals("2", takeText(again));
  }

  @Test
  void aServerNamedSubscriptionMayGoWithItsConsumer() throws Exception {
    RMQConnectionFactory cleaning = factory();
    cleaning.setCleanUpServerNamedQueuesForNonDurableTopicsOnSessionClose(true);
    Topic topic = topic();
    Session own = open(cleaning).createSession(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(topic);
    Inbox inbox = new Inbox(consumer);
    send(topic, "1");
    assertEquals("1", text(inbox.take()));
    consumer.close();
    MessageConsumer again = own.createConsumer(topic);
    send(topic, "2");
    assertEquals("2", takeText(again));
  }

  @Test
  void noLocalIsTakenAndMeansNothing() throws Exception {
    Topic topic = topic();
    MessageConsumer polling = session.createConsumer(topic, null, true);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(topic, null, true)); // RabbitMQ ignores the bit
    send(topic, "own");
    assertEquals("own", takeText(polling));
    assertEquals("own", text(inbox.take()));
  }
}
