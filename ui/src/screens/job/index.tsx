import { Screen } from '../../components/Screen'

export default function Job() {
  return (
    <Screen title="Job">
      <p className="hb-muted">What became of each scheduled time of one job, its next times and its settings.</p>
    </Screen>
  )
}
