package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import hareline.jms.Patience;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Queues whose arguments say who gets what first: priorities and message groups. */
class OrderTest extends RabbitCase {
  @Test
  void higherPrioritiesComeFirst() throws Exception {
    Queue queue = queue(Map.of("x-max-priority", 9));
    MessageProducer producer = session.createProducer(queue);
    for (int priority : new int[] {4, 0, 9, 4, 7}) {
      producer.setPriority(priority);
      producer.send(session.createTextMessage("p" + priority));
    }
    observer.awaitReady(queue.getQueueName(), 5);
    assertEquals(List.of("p9", "p7", "p4", "p4", "p0"), drained(queue, 5));
  }

  @Test
  void aQueueWithoutPrioritiesKeepsItsOrder() throws Exception {
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    for (int priority : new int[] {1, 9, 5}) {
      producer.setPriority(priority);
      producer.send(session.createTextMessage("p" + priority));
    }
    observer.awaitReady(queue.getQueueName(), 3);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    Message first = take(own.createConsumer(queue));
    assertEquals("p1", text(first));
    assertEquals(1, first.getJMSPriority());
    own.close();
    assertEquals(List.of("p9", "p5"), drained(queue, 2));
  }

  @Test
  void aGroupStaysWithItsConsumer() throws Exception {
    onlyHareline();
    Queue queue = queue(Map.of("x-message-group-type", "standard"));
    Inbox one = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    Inbox two = new Inbox(session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue));
    MessageProducer producer = session.createProducer(queue);
    for (int i = 0; i < 60; i++) {
      Message message = session.createTextMessage(Integer.toString(i));
      message.setStringProperty("JMSXGroupID", "group-" + i % 6);
      message.setIntProperty("JMSXGroupSeq", i / 6 + 1);
      producer.send(message);
    }
    Patience.until(() -> one.size() + two.size() == 60, "all have come");
    Set<String> ofOne = groupsInOrder(one);
    Set<String> ofTwo = groupsInOrder(two);
    assertEquals(3, ofOne.size());
    assertEquals(3, ofTwo.size());
    ofOne.retainAll(ofTwo);
    assertEquals(Set.of(), ofOne, "groups that both had");
  }

  /** The groups that an inbox has; within each, the messages must be in order. */
  private static Set<String> groupsInOrder(Inbox inbox) throws Exception {
    Map<String, Integer> last = new HashMap<>();
    int count = inbox.size();
    for (int i = 0; i < count; i++) {
      Message message = inbox.take();
      String group = message.getStringProperty("JMSXGroupID");
      int sequence = message.getIntProperty("JMSXGroupSeq");
      assertEquals(last.getOrDefault(group, 0) + 1, sequence, group);
      last.put(group, sequence);
    }
    return new HashSet<>(last.keySet());
  }

  @Test
  void aSharedGroupMovesWhenItsConsumerLeaves() throws Exception {
    onlyHareline();
    Queue queue = queue(Map.of("x-message-group-type", "shared"));
    MessageProducer producer = session.createProducer(queue);
    for (String each : List.of("a1", "a2", "b1")) {
      Message message = session.createTextMessage(each);
      message.setStringProperty("JMSXGroupID", each.substring(0, 1));
      producer.send(message);
    }
    observer.awaitReady(queue.getQueueName(), 3);
    RMQConnectionFactory oneAtATime = factory();
    oneAtATime.setChannelsQos(1);
    Session first = open(oneAtATime).createSession(Session.CLIENT_ACKNOWLEDGE);
    Inbox one = new Inbox(first.createConsumer(queue));
    assertEquals("a1", text(one.take()));
    Session second = open(oneAtATime).createSession(Session.CLIENT_ACKNOWLEDGE);
    Inbox two = new Inbox(second.createConsumer(queue));
    Message passing = two.take();
    assertEquals("b1", text(passing), "a2 waits: its group is with the other consumer");
    passing.acknowledge();
    first.close();
    Message moved = two.take();
    assertEquals("a1", text(moved));
    moved.acknowledge();
    assertEquals("a2", text(two.take()));
  }
}
