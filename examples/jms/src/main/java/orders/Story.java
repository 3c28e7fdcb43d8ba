package orders;

/** What is printed. */
final class Story {
    private Story() {}

    static synchronized void tell(String who, String what) {
        System.out.printf("%-10s| %s%n", who, what);
    }
}
