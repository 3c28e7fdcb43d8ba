package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Browsers, which this client makes of a consumer that acknowledges nothing and a channel that it
 * closes: they need a right count of ready messages, and requeueing in the original order.
 */
class BrowserTest extends RabbitCase {
  @Tag("M20")
  @Test
  void browsingLeavesEverythingInItsPlace() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 20));
    QueueBrowser browser = session.createBrowser(queue);
    assertEquals(List.of(numbers(0, 20)), texts(browser.getEnumeration()));
    assertEquals(List.of(numbers(0, 20)), texts(browser.getEnumeration()));
    browser.close();
    observer.awaitReady(queue.getQueueName(), 20);
    assertEquals(List.of(numbers(0, 20)), drained(queue, 20));
  }

  @Tag("M20")
  @Test
  void anEmptyQueueHasNothingToBrowse() throws Exception {
    assertFalse(session.createBrowser(queue()).getEnumeration().hasMoreElements());
  }

  @Tag("M20")
  @Test
  void aSelectorShowsSomeAndLeavesAll() throws Exception {
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    for (int i = 0; i < 12; i++) {
      Message message = session.createTextMessage(Integer.toString(i));
      message.setIntProperty("n", i);
      message.setStringProperty("colour", i % 2 == 0 ? "red" : "blue");
      producer.send(message);
    }
    observer.awaitReady(queue.getQueueName(), 12);
    QueueBrowser browser = session.createBrowser(queue, "colour = 'red' AND n BETWEEN 3 AND 9");
    assertEquals(List.of("4", "6", "8"), texts(browser.getEnumeration()));
    assertEquals(List.of(numbers(0, 12)), drained(queue, 12));
  }

  @Tag("M20")
  @Test
  void aBadSelectorIsRefused() throws Exception {
    Queue queue = queue();
    assertThrows(InvalidSelectorException.class, () -> session.createBrowser(queue, "n BETWEEN"));
  }

  @Tag("M20")
  @Test
  void aLimitedBrowserSeesTheFirst() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 10));
    RMQConnectionFactory limited = factory();
    limited.setQueueBrowserReadMax(3);
    Session own = open(limited).createSession(Session.AUTO_ACKNOWLEDGE);
    assertEquals(List.of("0", "1", "2"), texts(own.createBrowser(queue).getEnumeration()));
    assertEquals(List.of(numbers(0, 10)), drained(queue, 10));
  }

  @Tag("M20")
  @Test
  void anEnumerationMayBeLeftHalfRead() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    QueueBrowser browser = session.createBrowser(queue);
    Enumeration<?> half = browser.getEnumeration();
    assertEquals("1", text((Message) half.nextElement()));
    browser.close();
    assertEquals(List.of("1", "2", "3"), drained(queue, 3));
  }

  @Tag("M20")
  @Test
  void whatOthersHoldIsNotShownAndKeepsItsPlace() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3", "4");
    Session holder = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = holder.createConsumer(queue);
    takeTexts(consumer, 2);
    assertEquals(List.of("3", "4"), texts(session.createBrowser(queue).getEnumeration()));
    holder.close();
    assertEquals(
        List.of("1", "2", "3", "4"), texts(session.createBrowser(queue).getEnumeration()));
    assertEquals(List.of("1", "2", "3", "4"), drained(queue, 4));
  }

  @Tag("M20")
  @Test
  void browsedMessagesStandBeforeLaterOnes() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2");
    texts(session.createBrowser(queue).getEnumeration());
    send(queue, "3");
    texts(session.createBrowser(queue).getEnumeration());
    send(queue, "4");
    MessageConsumer consumer = session.createConsumer(queue);
    Message first = take(consumer);
    assertEquals("1", text(first));
    assertTrue(first.getJMSRedelivered(), "a browsed message has been delivered before");
    assertEquals(List.of("2", "3", "4"), takeTexts(consumer, 3));
  }

  @Tag("M20")
  @Test
  void aPriorityQueueIsBrowsedInItsOrder() throws Exception {
    Queue queue = queue(Map.of("x-max-priority", 9));
    MessageProducer producer = session.createProducer(queue);
    for (int priority : new int[] {1, 8, 4, 8, 0}) {
      producer.setPriority(priority);
      producer.send(session.createTextMessage("p" + priority));
    }
    observer.awaitReady(queue.getQueueName(), 5);
    List<String> expected = List.of("p8", "p8", "p4", "p1", "p0");
    assertEquals(expected, texts(session.createBrowser(queue).getEnumeration()));
    assertEquals(expected, drained(queue, 5));
  }

  @Tag("M20")
  @Test
  void manyMessagesAreBrowsedAtOnce() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 2_000));
    QueueBrowser browser = session.createBrowser(queue);
    assertEquals(List.of(numbers(0, 2_000)), texts(browser.getEnumeration()));
    observer.awaitReady(queue.getQueueName(), 2_000);
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals(List.of(numbers(0, 10)), takeTexts(consumer, 10));
  }
}
