package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** No-local in all its forms: consumer, binding, queue argument, durable subscriber. */
class NoLocalTest extends QpidCase {

  @Tag("S2")
  @Test
  void aTopicConsumerDoesNotHearItsOwnConnection() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Connection own = connect();
      Session session = autoSession(own);
      Topic topic = session.createTopic(syntax.topic(name("nolocal")));
      MessageConsumer consumer = session.createConsumer(topic, null, true);
      send(session, topic, "own");
      send(autoSession(own), topic, "own, another session");
      assertNextIs("another's " + syntax, autoSession(connect()), topic, consumer);
    }
  }

  @Tag("S2")
  @Test
  void aSelectorAndNoLocalBothCount() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = autoSession(connect());
      Topic topic = session.createTopic(syntax.topic(name("nolocal-select")));
      MessageConsumer consumer = session.createConsumer(topic, "n > 1", true);
      sendNumbers(session, topic, 4);
      sendNumbers(autoSession(connect()), topic, 4);
      assertEquals(numbers(2, 4), receiveTexts(consumer, 2), "" + syntax);
      sendNumbers(autoSession(connect()), topic, 3);
      assertEquals("2", receiveText(consumer), "" + syntax);
    }
  }

  @Tag("S2")
  @Test
  void aConsumerWithoutItHearsItsOwnConnection() throws Exception {
    Session session = autoSession(connect());
    // Two objects: by address the client remembers no-local in the first one.
    String name = name("local");
    Topic topic = topic(session, name);
    MessageConsumer deaf = session.createConsumer(topic, null, true);
    MessageConsumer all = session.createConsumer(topic(session, name), null, false);
    send(session, topic, "own");
    assertEquals("own", receiveText(all));
    assertNextIs("another's", autoSession(connect()), topic, deaf);
  }

  @Tag("S2")
  @Test
  void aQueueConsumerLeavesItsOwnConnectionsMessagesToOthers() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("nolocal-queue"));
    MessageConsumer deaf = session.createConsumer(queue, null, true);
    send(session, queue, "own");
    Session other = autoSession(connect());
    assertNextIs("another's", other, queue, deaf);
    assertEquals("own", receiveText(other.createConsumer(queue)));
  }

  @Tag("S2")
  @Test
  void aDurableSubscriberDoesNotHearItsOwnConnection() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Url url = url();
      Connection own = connect(url);
      Session session = autoSession(own);
      Topic topic = session.createTopic(syntax.topic(name("nolocal-durable")));
      MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub", null, true);
      send(session, topic, "own");
      Session other = autoSession(connect());
      assertNextIs("another's", other, topic, subscriber);
      own.close();
      send(other, topic, "while away");

      Session again = autoSession(connect(url));
      MessageConsumer resumed = again.createDurableSubscriber(topic, "sub", null, true);
      send(again, topic, "own again");
      send(other, topic, "now");
      List<String> received = new ArrayList<>();
      while (!received.contains("now")) {
        received.add(receiveText(resumed));
      }
      assertFalse(received.contains("own again"), "" + syntax);
      if (syntax == Syntax.BURL) {
        // The binding kept it out. By address the consumer alone bars its connection's messages,
        // and the connection that has sent this one is gone.
        assertFalse(received.contains("own"));
      }
      resumed.close();
      again.unsubscribe("sub");
    }
  }

  @Tag("S2")
  @Test
  void theQueueArgumentKeepsOutTheOwnersMessages() throws Exception {
    Session session = autoSession(connect());
    String name = name("nolocal-argument");
    String address =
        "ADDR:amq.topic/"
            + name
            + "; {link: {name: '"
            + name
            + "', x-declare: {exclusive: true, auto-delete: true, arguments: {'no-local': true}}}}";
    Topic topic = session.createTopic(address);
    MessageConsumer consumer = session.createConsumer(topic);
    Topic plain = topic(session, name);
    send(session, plain, "own");
    assertNextIs("another's", autoSession(connect()), plain, consumer);
  }
}
