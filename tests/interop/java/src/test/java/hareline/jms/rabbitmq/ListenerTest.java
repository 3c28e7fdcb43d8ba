package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;

import hareline.jms.Patience;
import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Listeners, and what stopping and starting a connection does to them. */
class ListenerTest extends RabbitCase {
  @Test
  void aListenerGetsMessagesInTheirOrder() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 150));
    Inbox inbox = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    assertEquals(List.of(numbers(0, 150)), inbox.takeTexts(150));
    send(queue, numbers(150, 300));
    assertEquals(List.of(numbers(150, 300)), inbox.takeTexts(150));
  }

  @Test
  void listenersShareAQueue() throws Exception {
    Queue queue = queue();
    Inbox one = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    Inbox two = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    send(queue, numbers(0, 40));
    Patience.until(() -> one.size() + two.size() == 40, "all have come");
    assertEquals(20, one.size());
    assertEquals(20, two.size());
    TreeSet<String> all = new TreeSet<>(one.takeTexts(20));
    all.addAll(two.takeTexts(20));
    assertEquals(new TreeSet<>(List.of(numbers(0, 40))), all);
  }

  @Test
  void stopCancelsTheConsumerAndStartResumes() throws Exception {
    Queue queue = queue();
    Connection own = open();
    Inbox inbox = new Inbox(own.createSession(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    send(queue, "1");
    assertEquals("1", text(inbox.take()));
    own.stop();
    fill(queue, "2", "3");
    assertEquals(0, inbox.size());
    own.start();
    assertEquals(List.of("2", "3"), inbox.takeTexts(2));
    own.stop();
    own.start();
    send(queue, "4");
    assertEquals("4", text(inbox.take()));
  }

  @Test
  void receiveWaitsWhileTheConnectionIsStopped() throws Exception {
    Queue queue = queue();
    fill(queue, "1");
    Connection own = factory().createConnection();
    try {
      MessageConsumer consumer =
          own.createSession(Session.AUTO_ACKNOWLEDGE).createConsumer(queue);
      assertEquals(null, consumer.receive(120));
      assertEquals(1, observer.ready(queue.getQueueName()));
      own.start();
      assertEquals("1", takeText(consumer));
    } finally {
      own.close();
    }
  }

  @Test
  void aClosedListenerTakesNothingMore() throws Exception {
    Queue queue = queue();
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    Inbox inbox = new Inbox(consumer);
    send(queue, "1");
    assertEquals("1", text(inbox.take()));
    consumer.close();
    fill(queue, "2");
    assertEquals(0, inbox.size());
    assertEquals(List.of("2"), drained(queue, 1));
  }
}
