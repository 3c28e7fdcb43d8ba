package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import javax.jms.Connection;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Durable subscriptions: durable exclusive queues that are a client id's. */
abstract class DurableSubscriptionCases extends QpidCase {

  @Tag("M11")
  @Test
  void aSubscriptionOutlivesItsConnection() throws Exception {
    Url url = url();
    Connection first = connect(url);
    Session session = autoSession(first);
    Topic topic = topic(session, name("durable"));
    MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
    sendNumbers(session, topic, 2);
    assertEquals("0", receiveText(subscriber));
    first.close();

    Session sender = autoSession(connect());
    send(sender, topic, "while away");

    Connection second = connect(url);
    Session again = autoSession(second);
    MessageConsumer resumed = again.createDurableSubscriber(topic, "sub");
    Message one = receive(resumed);
    assertEquals("1", text(one));
    assertEquals("while away", receiveText(resumed));
    assertNextIs("now", sender, topic, resumed);
    resumed.close();
    again.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void manyTimesOverTheSameSubscription() throws Exception {
    Url url = url();
    Topic topic = null;
    String name = name("durable-many");
    for (int i = 0; i < 5; i++) {
      Connection connection = connect(url);
      Session session = autoSession(connection);
      topic = topic(session, name);
      MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
      if (i > 0) {
        assertEquals("before " + i, receiveText(subscriber));
      }
      subscriber.close();
      send(session, topic, "before " + (i + 1));
      connection.close();
    }
    Session last = autoSession(connect(url));
    MessageConsumer subscriber = last.createDurableSubscriber(topic, "sub");
    assertEquals("before 5", receiveText(subscriber));
    subscriber.close();
    last.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void unsubscribeEndsIt() throws Exception {
    Url url = url();
    Session session = autoSession(connect(url));
    Topic topic = topic(session, name("durable-end"));
    session.createDurableSubscriber(topic, "sub").close();
    send(session, topic, "lost");
    session.unsubscribe("sub");
    send(session, topic, "lost too");
    assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("sub"));
    MessageConsumer anew = session.createDurableSubscriber(topic, "sub");
    assertNextIs("first", session, topic, anew);
    anew.close();
    session.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void anotherTopicBeginsTheSubscriptionAnew() throws Exception {
    Url url = url();
    Session session = autoSession(connect(url));
    Topic before = topic(session, name("durable-before"));
    Topic after = topic(session, name("durable-after"));
    session.createDurableSubscriber(before, "sub").close();
    send(session, before, "lost");
    Session other = autoSession(connect(url));
    MessageConsumer subscriber = other.createDurableSubscriber(after, "sub");
    send(session, before, "not of this topic");
    assertNextIs("first", session, after, subscriber);
    subscriber.close();
    other.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void theQueueIsItsClientIdsAndNoOthers() throws Exception {
    String owner = name("owner");
    Session session = autoSession(connect(url().clientId(owner)));
    Topic topic = topic(session, name("durable-owned"));
    session.createDurableSubscriber(topic, "sub").close();
    Session stranger = autoSession(connect(url().clientId(name("stranger"))));
    String queue = owner + ":sub";
    assertThrows(
        JMSException.class,
        () -> stranger.createConsumer(stranger.createQueue(Syntax.BURL.queue(queue))));
    session.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void twoConnectionsOfOneClientIdShareTheQueueInTurn() throws Exception {
    Url url = url();
    Connection first = connect(url);
    Connection second = connect(url);
    Session one = autoSession(first);
    Topic topic = topic(one, name("durable-turn"));
    MessageConsumer subscriber = one.createDurableSubscriber(topic, "sub");
    Session two = autoSession(second);
    assertThrows(JMSException.class, () -> two.createDurableSubscriber(topic, "sub"));
    assertNextIs("to the first", one, topic, subscriber);
    first.close();

    // What the broker did to the second connection by refusing it differs; a third one is new.
    Session three = autoSession(connect(url));
    MessageConsumer next = three.createDurableSubscriber(topic, "sub");
    assertNextIs("to the next", three, topic, next);
    next.close();
    three.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void unacknowledgedMessagesOfASubscriptionComeBack() throws Exception {
    Url url = url();
    Connection connection = connect(url);
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Topic topic = topic(session, name("durable-unacked"));
    MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
    sendNumbers(session, topic, 3);
    receive(subscriber).acknowledge();
    assertEquals("1", receiveText(subscriber));
    connection.close();

    Session again = autoSession(connect(url));
    MessageConsumer resumed = again.createDurableSubscriber(topic, "sub");
    Message redelivered = receive(resumed);
    assertEquals("1", text(redelivered));
    assertTrue(redelivered.getJMSRedelivered());
    assertEquals("2", receiveText(resumed));
    resumed.close();
    again.unsubscribe("sub");
  }

  @Tag("M11")
  @Test
  void severalSubscriptionsOfOneClientAreApart() throws Exception {
    Url url = url();
    Connection connection = connect(url);
    Session session = autoSession(connection);
    Topic left = topic(session, name("durable-left"));
    Topic right = topic(session, name("durable-right"));
    session.createDurableSubscriber(left, "left").close();
    session.createDurableSubscriber(right, "right").close();
    send(session, left, "l");
    send(session, right, "r");
    connection.close();
    Session again = autoSession(connect(url));
    assertEquals("r", receiveText(again.createDurableSubscriber(right, "right")));
    Message message = receive(again.createDurableSubscriber(left, "left"));
    assertEquals("l", text(message));
    assertFalse(message.getJMSRedelivered(), "nobody had it before");
    again.close();
    Session last = autoSession(connect(url));
    last.unsubscribe("left");
    last.unsubscribe("right");
  }
}
