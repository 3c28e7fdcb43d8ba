package orders;

import java.time.Duration;

/** The order of events. The two sides exchange messages only through the broker. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        try (Warehouse warehouse = new Warehouse()) {
            warehouse.subscribe();
        }

        try (Shop shop = new Shop()) {
            shop.remindMe("ask for feedback", Duration.ofSeconds(1));
            shop.place("20 hares", 40);
            shop.place("70 hares", 140);
            shop.place("90 tortoises", 180);

            try (Warehouse warehouse = new Warehouse()) {
                warehouse.answerQuestions();
                shop.ask("hares");
                shop.ask("snails");
                warehouse.dispatchOrders();
            }
            shop.awaitReminder();
        }
    }
}
